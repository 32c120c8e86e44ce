"""The acting half of SAC: tanh of a Gaussian sample."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whorl.agents.continuous.acting import ContinuousPolicy, build, build_network, parameter_plan
from whorl.agents.contract import AgentSpec
from whorl.agents.off_policy.parameters import ParameterPlan
from whorl.agents.sac.config import SACConfig
from whorl.models.bounded_actor import BoundedActor
from whorl.models.network import Parameter
from whorl.ops.bounded import squashed_gaussian
from whorl.types import Array, Arrays, EnvSpec

LOG_TEMPERATURE = "temperature/log"
"""The logarithm of the temperature over the one it started with."""


class SACPolicy(ContinuousPolicy):
    """Explores by sampling its own distribution."""

    def explore(self, outputs: Array, state: Arrays, first: Array, normal: NDArray[np.float32]) -> tuple[Array, Arrays]:
        """Samples of the squashed Gaussian."""
        del first
        return squashed_gaussian(outputs.T, normal.T).action.T, state


def network(config: SACConfig, env: EnvSpec) -> BoundedActor:
    """One actor with a mean and a deviation for each component of the action, two critics."""
    return build_network("sac", config, env, per_action=2, critics=2)


def plan(described: BoundedActor) -> ParameterPlan:
    """The temperature lies between actor and critics, so that it moves together with the actor."""
    return parameter_plan(described, (Parameter(LOG_TEMPERATURE, (1,), 0),))


def spec(config: SACConfig, env: EnvSpec) -> AgentSpec:
    """What SAC stores and sends."""
    described = network(config, env)
    return build(config, env, described, plan(described))


def policy(config: SACConfig, env: EnvSpec) -> SACPolicy:
    """How SAC acts."""
    return SACPolicy(spec(config, env), network(config, env))
