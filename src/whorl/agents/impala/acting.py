"""The acting half of IMPALA."""

from __future__ import annotations

from whorl.agents.actor_critic.acting import ActorCriticPolicy, build_spec
from whorl.agents.contract import AgentSpec
from whorl.agents.impala.config import ImpalaConfig
from whorl.types import EnvSpec


def spec(config: ImpalaConfig, env: EnvSpec) -> AgentSpec:
    """What IMPALA stores and sends."""
    return build_spec(config, env, corrected=True, minibatches=config.minibatches, whole_lanes=True)


def policy(config: ImpalaConfig, env: EnvSpec) -> ActorCriticPolicy:
    """How IMPALA acts."""
    return ActorCriticPolicy(config, env, spec(config, env))
