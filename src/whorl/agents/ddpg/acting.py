"""The acting half of DDPG: the actor's action plus noise."""

from __future__ import annotations

from whorl.agents.continuous.acting import NoisyPolicy, build, build_network, parameter_plan
from whorl.agents.contract import AgentSpec
from whorl.agents.ddpg.config import DDPGConfig
from whorl.models.bounded_actor import BoundedActor
from whorl.types import EnvSpec


def network(config: DDPGConfig, env: EnvSpec) -> BoundedActor:
    """One actor, one critic."""
    return build_network("ddpg", config, env, per_action=1, critics=1)


def spec(config: DDPGConfig, env: EnvSpec) -> AgentSpec:
    """What DDPG stores and sends."""
    described = network(config, env)
    return build(config, env, described, parameter_plan(described), config.noise)


def policy(config: DDPGConfig, env: EnvSpec) -> NoisyPolicy:
    """How DDPG acts."""
    return NoisyPolicy(spec(config, env), network(config, env), config.noise)
