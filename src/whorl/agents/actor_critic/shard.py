"""One shard of a batch on its way from raw rows to minibatches."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from whorl.models.differentiable import Differentiable
from whorl.models.encoding import flat_rows
from whorl.models.network import Network
from whorl.models.torch_forward import Inputs
from whorl.ops.advantages import Advantages, gae
from whorl.ops.namespace import AnyArray
from whorl.ops.noise import generator
from whorl.types import Array, Arrays

_VALUE_ROWS = 1024
"""Rows of one forward for values: bounds the memory that images take."""
_REWARD_LIMIT = np.float32(10)
"""Scaled rewards are clipped to this, either way."""


_NUMBERS = 5
"""Columns beside the actions: the numbers of a minibatch after ``taken``."""

_Index = slice | NDArray[np.int64]


class Minibatch(NamedTuple):
    """Rows for one gradient."""

    inputs: Inputs
    taken: AnyArray
    """Actions as columns: one-hot [choices, N], or a Gaussian's raw samples [size, N]."""
    log_prob: AnyArray
    advantage: AnyArray
    returns: AnyArray
    value: AnyArray
    """As it was before the update."""
    weight: AnyArray
    """1 for valid rows, else 0."""


class Shard:
    """The rows of some lanes, in host memory. ``trajectory`` may be shared memory: it is read until the update ends."""

    def __init__(self, network: Network, weights: Arrays, trajectory: Arrays, device: torch.device) -> None:
        self.trajectory = trajectory
        self.rows, self.lanes = trajectory["reward"].shape
        self._network = network
        self._device = device
        observation = {leaf.name: flat_rows(trajectory[f"obs/{leaf.name}"]) for leaf in network.encoder.leaves}
        self._features = np.empty((trajectory["first"].size, network.encoder.width), np.float32)
        network.encoder.encode(weights, observation, self._features)
        self._images = {leaf.name: flat_rows(trajectory[f"obs/{leaf.name}"]) for leaf in network.encoder.images}
        self._values = np.zeros((0, self.lanes), np.float32)
        self._estimates = Advantages(self._values, self._values)
        self._columns = np.zeros((0, 0), np.float32)
        self._shuffle: tuple[int, NDArray[np.int64]] = (-1, np.zeros(0, np.int64))
        self._whole: Minibatch | None = None

    def estimate(
        self, model: Differentiable, discount: float, lambda_: float, reward_scale: float | None
    ) -> NDArray[np.float64]:
        """Advantages and returns of the learnt rows. Returns what the batch sums of them: the number of valid rows,
        advantages and their squares, returns and their squares."""
        t = self.trajectory
        self._values = self._forward_values(model).reshape(self.rows + 1, self.lanes)
        reward = t["reward"]
        if reward_scale is not None:
            reward = np.clip(reward * np.float32(reward_scale), -_REWARD_LIMIT, _REWARD_LIMIT)
        self._estimates = gae(reward, self._values, t["terminated"], t["truncated"], t["valid"], discount, lambda_)
        advantages, returns = (estimate.astype(np.float64) for estimate in self._estimates)
        valid_rows = np.count_nonzero(t["valid"][: self.rows])
        return np.array([valid_rows, advantages.sum(), (advantages**2).sum(), returns.sum(), (returns**2).sum()])

    def settle(self, mean: float, scale: float) -> None:
        """Fix the numbers that minibatches draw; advantages become (A - mean) * scale."""
        t = self.trajectory
        advantages = (self._estimates.advantages - np.float32(mean)) * np.float32(scale)
        parts = (t["log_prob"], advantages, self._estimates.returns, self._values[:-1], t["valid"][:-1])
        taken = _taken(self._network, t)
        self._columns = np.concatenate([taken, *(part.reshape(1, -1) for part in parts)], dtype=np.float32)
        self._shuffle = (-1, np.zeros(0, np.int64))
        self._whole = None

    def minibatch(self, key: tuple[int, ...], epoch: int, index: int, count: int, as_numpy: bool) -> Minibatch:
        """Part ``index`` of ``count`` of this epoch's shuffle: rows, or whole lanes for a recurrent network.

        ``key`` and the epoch determine the shuffle. One part is the whole shard, which needs none.
        """
        if count == 1:
            if self._whole is None:
                self._whole = self._drawn(slice(self.rows * self.lanes), slice(None), self._columns, as_numpy)
            return self._whole
        recurrent = self._network.recurrent
        if self._shuffle[0] != epoch:
            units = self.lanes if recurrent else self.rows * self.lanes
            self._shuffle = (epoch, generator(*key, epoch).permutation(units))
        order = self._shuffle[1]
        part = order[index * len(order) // count : (index + 1) * len(order) // count]
        rows = (np.arange(self.rows)[:, None] * self.lanes + part).reshape(-1) if recurrent else part
        return self._drawn(rows, part, self._columns.take(rows, axis=1), as_numpy)

    def _drawn(self, rows: _Index, lanes: _Index, columns: NDArray[np.float32], as_numpy: bool) -> Minibatch:
        choices = len(columns) - _NUMBERS
        wrapped = columns if as_numpy else self._tensor(columns)
        return Minibatch(self._inputs(rows, lanes, self.rows), wrapped[:choices], *wrapped[choices:])

    def _inputs(self, rows: _Index, lanes: _Index, time: int) -> Inputs:
        """The network's inputs for flat ``rows``; ``lanes`` and ``time`` say which of the stream they are."""
        images = {name: self._tensor(image[rows]) for name, image in self._images.items()}
        features = self._tensor(self._features[rows])
        if not self._network.recurrent:
            return Inputs(features, images)
        t = self.trajectory
        h, c = (self._tensor(t[name][lanes]) for name in ("state/h", "state/c"))
        return Inputs(features, images, self._tensor(t["first"][:time, lanes]), (h, c))

    def _forward_values(self, model: Differentiable) -> NDArray[np.float32]:
        if self._network.recurrent or not self._images:
            return model.values(self._inputs(slice(None), slice(None), self.rows + 1))
        parts = [slice(start, start + _VALUE_ROWS) for start in range(0, len(self._features), _VALUE_ROWS)]
        return np.concatenate([model.values(self._inputs(part, part, 0)) for part in parts])

    def _tensor(self, array: Array) -> Tensor:
        # Trajectories may be read-only shared memory, of which torch would warn.
        return torch.from_numpy(array if array.flags.writeable else array.copy()).to(self._device)


def _taken(network: Network, trajectory: Arrays) -> Array:
    """Actions as columns: what the policy's distribution is evaluated at."""
    rows = trajectory["reward"].size
    if network.gaussian:
        return trajectory["raw_action"].reshape(rows, -1).T
    chosen = trajectory["action"].reshape(rows, -1).T
    nvec = network.head.action.nvec
    return np.concatenate([choice == np.arange(n)[:, None] for choice, n in zip(chosen, nvec, strict=True)])
