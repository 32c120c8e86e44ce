"""The acting half of A2C."""

from __future__ import annotations

from whorl.agents.a2c.config import A2CConfig
from whorl.agents.actor_critic.acting import ActorCriticPolicy, build_spec
from whorl.agents.contract import AgentSpec
from whorl.types import EnvSpec


def spec(config: A2CConfig, env: EnvSpec) -> AgentSpec:
    """What A2C stores and sends."""
    return build_spec(config, env, corrected=config.vtrace)


def policy(config: A2CConfig, env: EnvSpec) -> ActorCriticPolicy:
    """How A2C acts."""
    return ActorCriticPolicy(config, env, spec(config, env))
