"""The acting half of actor-critic agents: what is stored, and one row of actions. No torch for small networks."""

from __future__ import annotations

import numpy as np

from whorl.agents.actor_critic.settings import ActorCriticConfig
from whorl.agents.contract import Acted, AgentSpec
from whorl.models.acting import ActingForwards
from whorl.models.network import Network
from whorl.models.precision import Precision
from whorl.types import Array, Arrays, EnvSpec, Field, Layout

SUMS_WIDTH = 8
"""Numbers that a step sums beside its gradient; what they are is the step's business."""


def build_network(config: ActorCriticConfig, env: EnvSpec) -> Network:
    """The network's description."""
    return Network(config.network, env, config.normalise_observations)


def moments_width(network: Network) -> int:
    """Columns of the running moments: every element of the normalised observations, and the discounted return."""
    return sum(int(np.prod(leaf.shape)) for leaf in network.encoder.normalised) + 1


def build_spec(
    config: ActorCriticConfig,
    env: EnvSpec,
    corrected: bool,
    epochs: int = 1,
    minibatches: int = 1,
    whole_lanes: bool = False,
) -> AgentSpec:
    """What an actor-critic agent stores and sends. One that is ``corrected`` by V-trace may learn from stale data."""
    network = build_network(config, env)
    whole_lanes = whole_lanes or network.recurrent
    gradient_size = Layout(tuple(parameter.field for parameter in network.parameters)).size_bytes // 4
    return AgentSpec(
        fields=network.head.fields,
        state=network.state,
        weights=network.weights,
        contribution=Layout(
            (
                Field("gradient", (gradient_size,), "float32"),
                Field("sums", (SUMS_WIDTH,), "float64"),
                Field("moments", (1 + 2 * moments_width(network),), "float64"),
            )
        ),
        noise_width=network.head.noise_width,
        rows=config.rows,
        staleness="correctable" if corrected else "strict",
        discount=config.discount,
        fewest_lanes=minibatches if whole_lanes else -(-minibatches // config.rows),
        wants_discounted_return=config.normalise_rewards or config.normalise_observations,
        gradient_steps=epochs * minibatches,
        parameters=network.everything,
        acting=network.acting,
    )


class ActorCriticPolicy:
    """The acting half. Computes the policy alone: values are the learner's business, in one batch."""

    def __init__(self, config: ActorCriticConfig, env: EnvSpec, spec: AgentSpec) -> None:
        self.spec = spec
        self.network = build_network(config, env)
        self._forward = ActingForwards(self.network)

    def act(self, weights: Arrays, observation: Arrays, state: Arrays, first: Array, noise: Array | None) -> Acted:
        """Actions for [lanes] rows; ``noise`` None takes the likeliest."""
        outputs, after = self._forward(weights, observation, state, first)
        actions, fields = self.network.head.choose(outputs, weights.get("policy/log_std"), noise)
        return Acted(actions, fields, after)

    def renew(self, weights: Arrays, precision: Precision) -> None:
        """New weights have come."""
        self._forward.renew(weights, precision)
