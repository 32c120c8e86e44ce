"""Priorities of a trajectory by the weights it was collected with, in one batch. No torch.

The mean over the critics k of  |Q_k(o_t, a_t) - (r_t + g r_(t+1) + ... + g^m V(o_(t+m)))|  as the learner will compute
it, but for the target networks, which actors do not have. V is the least of the critics' values of the policy's action.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whorl.agents.continuous.settings import ContinuousConfig
from whorl.models.bounded_actor import BoundedActor
from whorl.models.encoding import flat_rows
from whorl.models.numpy_tower import encoded, tower_outputs
from whorl.ops.advantages import n_step_returns
from whorl.ops.critics import clipped_double_q
from whorl.types import Array, Arrays, leaves_of


class ContinuousPostprocess:
    """Temporal-difference errors of a trajectory."""

    def __init__(self, config: ContinuousConfig, network: BoundedActor) -> None:
        self._config = config
        self._network = network

    def __call__(self, weights: Arrays, trajectory: Arrays) -> Array:
        """[rows, lanes]"""
        t, network, config = trajectory, self._network, self._config
        observation = {name: flat_rows(leaf) for name, leaf in leaves_of(t, "obs/").items()}
        features = encoded(network.encoder, weights, observation)
        outputs = tower_outputs(network.config, weights, "policy", features)
        value = self.value(weights, outputs, self._critics(weights, features, self.action(outputs)))
        targets = n_step_returns(
            t["reward"],
            value.reshape(t["first"].shape),
            t["terminated"],
            t["truncated"],
            t["valid"],
            config.discount,
            config.n_step,
        )
        taken = network.head.from_env(flat_rows(t["action"]))
        q = self._critics(weights, features[: len(taken)], taken)
        errors = np.abs(q - targets.reshape(-1)).mean(0).reshape(targets.shape)
        return np.where(t["valid"][: len(targets)], errors, np.float32(0))

    def action(self, outputs: Array) -> Array:
        """The policy's scaled action [N, size], without noise."""
        action: Array = np.tanh(outputs[:, : self._network.head.size])
        return action

    def value(self, weights: Arrays, outputs: Array, q: Array) -> Array:
        """[N], from the critics' values [critics, N] of that action."""
        del weights, outputs
        least: Array = clipped_double_q(q)
        return least

    def _critics(self, weights: Arrays, features: Array, action: Array) -> NDArray[np.float32]:
        """[critics, N]"""
        inputs = np.concatenate([features, action], 1)
        values = [tower_outputs(self._network.config, weights, name, inputs) for name in self._network.critic_names]
        return np.concatenate(values, 1).T
