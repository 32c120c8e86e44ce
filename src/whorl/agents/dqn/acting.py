"""The acting half of DQN: the action of the highest value, or with probability epsilon any action."""

from __future__ import annotations

import numpy as np

from whorl.agents.contract import Acted, AgentSpec
from whorl.agents.dqn.config import DQNConfig
from whorl.agents.off_policy.parameters import ParameterPlan
from whorl.agents.off_policy.spec import build_spec
from whorl.errors import ConfigError
from whorl.models.acting import ActingForwards
from whorl.models.network import Network
from whorl.models.precision import Precision
from whorl.types import Array, Arrays, EnvSpec, Field

EPSILON = Field("epsilon", (), "float32")
"""Travels with the weights: the learner writes it from the progress of the run."""

_OTHERS = {"multi_discrete": "ppo, a2c", "box": "sac, td3, ddpg, ppo"}


def build_network(config: DQNConfig, env: EnvSpec) -> Network:
    """Action values, or with ``dueling`` advantages (which order actions just as well) and a value."""
    if env.action.kind != "discrete":
        raise ConfigError(
            f"dqn chooses one of a number of actions, and {env.env_id} takes {env.action.kind} actions: "
            f"use {_OTHERS[env.action.kind]}"
        )
    return Network(config.network, env, normalise=False, value=config.dueling)


def build_plan(network: Network) -> ParameterPlan:
    """Epsilon, what actors need of the network, and the value that only the learner needs."""
    return ParameterPlan((EPSILON,), network.policy_parameters, network.value_parameters)


def spec(config: DQNConfig, env: EnvSpec) -> AgentSpec:
    """What DQN stores and sends."""
    network = build_network(config, env)
    return build_spec(
        config,
        env,
        build_plan(network),
        noise_width=2,
        acting=network.acting,
        state=network.state,
        lead_rows=config.burn_in if network.recurrent else 0,
        exploration=EPSILON.name,
    )


class DQNPolicy:
    """Epsilon-greedy."""

    scores = "values"
    """What an exported policy calls the numbers it chooses by."""

    def __init__(self, config: DQNConfig, env: EnvSpec) -> None:
        self.spec = spec(config, env)
        self.network = build_network(config, env)
        self._dtype = env.action.dtype
        self._choices = env.action.nvec[0]
        self._forward = ActingForwards(self.network)

    def act(self, weights: Arrays, observation: Arrays, state: Arrays, first: Array, noise: Array | None) -> Acted:
        """Actions for [lanes] rows; ``noise`` None never explores."""
        outputs, after = self._forward(weights, observation, state, first)
        actions = outputs.argmax(axis=1)
        if noise is not None:
            random = np.minimum((noise[:, 1] * self._choices).astype(np.int64), self._choices - 1)
            actions = np.where(noise[:, 0] < weights["epsilon"], random, actions)
        return Acted(actions.astype(self._dtype, copy=False), {}, after)

    def renew(self, weights: Arrays, precision: Precision) -> None:
        """New weights have come."""
        self._forward.renew(weights, precision)


def policy(config: DQNConfig, env: EnvSpec) -> DQNPolicy:
    """How DQN acts."""
    return DQNPolicy(config, env)
