"""Priorities of a trajectory by the weights it was collected with, in one batch. Imports torch for images only.

    |Q(o_t, a_t) - (r_t + g r_(t+1) + ... + g^m max_a Q(o_(t+m), a))|

as the learner will compute it, but for the target network, which actors do not have (Horgan et al. 2018, section 3).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whorl.agents.dqn.acting import build_network
from whorl.agents.dqn.config import DQNConfig
from whorl.models.encoding import flat_rows
from whorl.models.numpy_forward import NumpyForward
from whorl.models.numpy_tower import encoded, head_outputs, tower_outputs
from whorl.ops.advantages import n_step_returns
from whorl.ops.td import dueling
from whorl.types import Array, Arrays, EnvSpec, leaves_of


def sequence_priorities(share: float, errors: Array, valid: Array) -> NDArray[np.float32]:
    """Of sequences [rows, N]: a mixture of the largest and the mean error (Kapturowski et al. 2019), [N]."""
    errors = np.where(valid, errors, np.float32(0))
    mean = errors.sum(0) / np.maximum(valid.sum(0), 1)
    of_largest = np.float32(share)
    return np.asarray(of_largest * errors.max(0) + (1 - of_largest) * mean, np.float32)


class DQNPostprocess:
    """Temporal-difference errors of a trajectory."""

    def __init__(self, config: DQNConfig, env: EnvSpec) -> None:
        self._config = config
        self._network = build_network(config, env)

    def __call__(self, weights: Arrays, trajectory: Arrays) -> Array:
        """[rows, lanes], or [1, lanes] for sequences."""
        config, t = self._config, trajectory
        q = self._values(weights, trajectory)
        targets = n_step_returns(
            t["reward"], q.max(2), t["terminated"], t["truncated"], t["valid"], config.discount, config.n_step
        )
        taken = np.take_along_axis(q[:-1], t["action"][..., None].astype(np.int64), 2)[..., 0]
        valid = t["valid"][:-1]
        errors = np.where(valid, np.abs(taken - targets), np.float32(0))
        if not self._network.recurrent:
            return errors
        learnt = slice(config.burn_in, None)
        return sequence_priorities(config.sequence_priority, errors[learnt], valid[learnt])[None]

    def _values(self, weights: Arrays, trajectory: Arrays) -> NDArray[np.float32]:
        """Action values [rows + 1, lanes, choices]."""
        if self._network.acting == "torch":
            from whorl.models.torch_values import values_of_rows

            policy, value = values_of_rows(self._network, weights, trajectory)
        elif self._network.recurrent:
            policy, value = self._row_by_row(weights, trajectory)
        else:
            policy, value = self._at_once(weights, trajectory)
        if self._config.dueling:
            policy = dueling(policy.T, value).T
        return policy.reshape(*trajectory["first"].shape, -1)

    def _at_once(self, weights: Arrays, trajectory: Arrays) -> tuple[Array, Array]:
        network = self._network
        observation = {name: flat_rows(leaf) for name, leaf in leaves_of(trajectory, "obs/").items()}
        features = encoded(network.encoder, weights, observation)
        policy = tower_outputs(network.config, weights, "policy", features)
        value = tower_outputs(network.config, weights, "value", features) if self._config.dueling else features
        return policy, value[:, 0]

    def _row_by_row(self, weights: Arrays, trajectory: Arrays) -> tuple[Array, Array]:
        """An LSTM goes through the rows once more: acting keeps its actions, and not their values."""
        first, state = trajectory["first"], leaves_of(trajectory, "state/")
        forward = NumpyForward(self._network, first.shape[1])
        policy, hidden = [], []
        for row in range(len(first)):
            observation = {name: leaf[row] for name, leaf in leaves_of(trajectory, "obs/").items()}
            outputs, state = forward(weights, observation, state, first[row])
            policy.append(outputs.copy())
            hidden.append(state["h"])
        h = np.concatenate(hidden)
        return np.concatenate(policy), head_outputs(weights, "value", h)[:, 0] if self._config.dueling else h[:, 0]
