"""The acting half of agents with bounded actions: refusals, what is stored, and one row of actions. No torch.

The weights hold ``exploration/random`` beside the actor: 1 while the run is so young that actions are uniform.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from whorl.agents.continuous.settings import ContinuousConfig, NoiseConfig
from whorl.agents.contract import Acted, AgentSpec
from whorl.agents.off_policy.parameters import ParameterPlan
from whorl.agents.off_policy.spec import build_spec
from whorl.errors import ConfigError
from whorl.models.bounded_actor import BoundedActor
from whorl.models.network import Parameter
from whorl.models.numpy_forward import NumpyForward
from whorl.ops.bounded import ornstein_uhlenbeck
from whorl.ops.sampling import normal_from
from whorl.types import Array, Arrays, EnvSpec, Field

RANDOM = "exploration/random"
NOISE = "noise"
"""Ornstein-Uhlenbeck noise, kept as a recurrent state."""


def build_network(agent: str, config: ContinuousConfig, env: EnvSpec, per_action: int, critics: int) -> BoundedActor:
    """The description of the actor and its critics. Refuses spaces they cannot serve."""
    action = env.action
    if action.kind != "box":
        raise ConfigError(
            f"{agent} needs continuous actions, and {env.env_id} takes {action.kind} ones: use dqn or ppo"
        )
    if not all(math.isfinite(bound) for bound in (*action.low, *action.high)):
        raise ConfigError(f"{agent} needs actions with finite bounds, which {env.env_id} does not have: use ppo")
    if images := [leaf.name for leaf in env.observation if leaf.kind == "image"]:
        raise ConfigError(f"{agent} has no network for images ({images[0]!r} of {env.env_id} is one): use ppo")
    if config.network.core != "none":
        raise ConfigError(f"{agent} has no memory: agent.network.core must be none (ppo and dqn know lstm)")
    return BoundedActor(config.network, env, per_action, critics)


def parameter_plan(network: BoundedActor, more: tuple[Parameter, ...] = ()) -> ParameterPlan:
    """Actor first, then ``more`` (a temperature), then the critics."""
    return ParameterPlan((Field(RANDOM, (), "float32"),), network.actor_parameters, (*more, *network.critic_parameters))


def build(
    config: ContinuousConfig, env: EnvSpec, network: BoundedActor, plan: ParameterPlan, noise: NoiseConfig | None = None
) -> AgentSpec:
    """What such an agent stores and sends; ``noise`` may need a state."""
    keeps_noise = noise is not None and noise.kind == "ou"
    return build_spec(
        config,
        env,
        plan,
        noise_width=network.head.noise_width,
        acting="numpy",
        state=(Field(NOISE, (network.head.size,), "float32"),) if keeps_noise else (),
    )


class ContinuousPolicy:
    """Runs the actor; what becomes of its outputs is the agent's business."""

    def __init__(self, spec: AgentSpec, network: BoundedActor) -> None:
        self.spec = spec
        self.network = network
        self._forwards: dict[int, NumpyForward] = {}

    def act(self, weights: Arrays, observation: Arrays, state: Arrays, first: Array, noise: Array | None) -> Acted:
        """Actions for [lanes] rows; ``noise`` None explores nothing."""
        head = self.network.head
        if noise is not None and weights[RANDOM] > 0:
            return Acted(head.to_env(2 * noise[:, : head.size] - 1), {}, state)
        forward = self._forwards.get(len(first))
        if forward is None:
            forward = self._forwards[len(first)] = NumpyForward(self.network, len(first))
        outputs, _ = forward(weights, observation, {}, first)
        if noise is None:
            return Acted(head.to_env(np.tanh(outputs[:, : head.size])), {}, state)
        scaled, state = self.explore(outputs, state, first, normal_from(noise, head.size))
        return Acted(head.to_env(scaled), {}, state)

    def explore(self, outputs: Array, state: Arrays, first: Array, normal: NDArray[np.float32]) -> tuple[Array, Arrays]:
        """Scaled actions [lanes, size] for the actor's outputs and standard normal numbers, and the state after."""
        raise NotImplementedError


class NoisyPolicy(ContinuousPolicy):
    """A deterministic actor with noise added to its actions."""

    def __init__(self, spec: AgentSpec, network: BoundedActor, noise: NoiseConfig) -> None:
        super().__init__(spec, network)
        self._noise = noise

    def explore(self, outputs: Array, state: Arrays, first: Array, normal: NDArray[np.float32]) -> tuple[Array, Arrays]:
        """tanh of the outputs plus noise, which starts at 0 in every episode if it is kept."""
        kind, sigma, theta = self._noise.kind, self._noise.sigma, self._noise.theta
        if kind == "gaussian":
            return np.clip(np.tanh(outputs) + np.float32(sigma) * normal, -1, 1), state
        moved = ornstein_uhlenbeck(state[NOISE] * ~first[:, None], normal, theta, sigma)
        return np.clip(np.tanh(outputs) + moved, -1, 1), {NOISE: moved}
