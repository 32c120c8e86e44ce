"""The acting half of TD3: the actor's action plus noise."""

from __future__ import annotations

from whorl.agents.continuous.acting import NoisyPolicy, build, build_network, parameter_plan
from whorl.agents.contract import AgentSpec
from whorl.agents.td3.config import TD3Config
from whorl.models.bounded_actor import BoundedActor
from whorl.types import EnvSpec


def network(config: TD3Config, env: EnvSpec) -> BoundedActor:
    """One actor, two critics."""
    return build_network("td3", config, env, per_action=1, critics=2)


def spec(config: TD3Config, env: EnvSpec) -> AgentSpec:
    """What TD3 stores and sends."""
    described = network(config, env)
    return build(config, env, described, parameter_plan(described), config.noise)


def policy(config: TD3Config, env: EnvSpec) -> NoisyPolicy:
    """How TD3 acts."""
    return NoisyPolicy(spec(config, env), network(config, env), config.noise)
