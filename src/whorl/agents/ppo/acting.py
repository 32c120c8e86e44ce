"""The acting half of PPO."""

from __future__ import annotations

from whorl.agents.actor_critic.acting import ActorCriticPolicy, build_spec
from whorl.agents.contract import AgentSpec
from whorl.agents.ppo.config import PPOConfig
from whorl.types import EnvSpec


def spec(config: PPOConfig, env: EnvSpec) -> AgentSpec:
    """What PPO stores and sends."""
    return build_spec(config, env, corrected=config.vtrace, epochs=config.epochs, minibatches=config.minibatches)


def policy(config: PPOConfig, env: EnvSpec) -> ActorCriticPolicy:
    """How PPO acts."""
    return ActorCriticPolicy(config, env, spec(config, env))
