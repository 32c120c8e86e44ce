"""One shard of a batch on its way from raw rows to minibatches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from whorl.agents.actor_critic.objective import Minibatch, evaluate
from whorl.agents.actor_critic.settings import Trace
from whorl.models.differentiable import Differentiable
from whorl.models.encoding import flat_rows, to_blocks
from whorl.models.network import Network, block_size
from whorl.models.torch_forward import Inputs
from whorl.ops.advantages import gae
from whorl.ops.noise import generator
from whorl.ops.vtrace import VTrace, vtrace
from whorl.types import Array, Arrays

_FORWARD_ROWS = 1024
"""Rows of one forward over the whole shard: bounds the memory that images take."""
_REWARD_LIMIT = np.float32(10)
"""Scaled rewards are clipped to this, either way."""
_NUMBERS = 5
"""Columns beside the actions: the numbers of a minibatch after ``taken``."""

_Index = slice | NDArray[np.int64]


class Shard:
    """The rows of some lanes, in host memory. ``trajectory`` may be shared memory: it is read until the update ends.

    Numbers per row are kept as columns, in the order of ``Minibatch``.
    """

    def __init__(self, network: Network, weights: Arrays, trajectory: Arrays, device: torch.device) -> None:
        self.trajectory = trajectory
        self.rows, self.lanes = trajectory["reward"].shape
        self._network = network
        self._device = device
        observation = {leaf.name: flat_rows(trajectory[f"obs/{leaf.name}"]) for leaf in network.encoder.leaves}
        self._features = np.empty((trajectory["first"].size, network.encoder.width), np.float32)
        network.encoder.encode(weights, observation, self._features)
        self._images = {
            leaf.name: to_blocks(flat_rows(trajectory[f"obs/{leaf.name}"]), block_size(leaf))
            for leaf in network.encoder.images
        }
        self._taken = _taken(network, trajectory)
        self._estimates: VTrace | None = None
        self._values = np.zeros((self.rows + 1, self.lanes), np.float32)
        self._log_prob: Array = trajectory["log_prob"]
        self._columns: NDArray[np.float32] | None = None
        self._shuffle: tuple[int, NDArray[np.int64]] = (-1, np.zeros(0, np.int64))
        self._whole: Minibatch | None = None

    # Before the minibatches -------------------------------------------------------------------------------------------

    def estimate(self, model: Differentiable, trace: Trace, reward_scale: float | None) -> NDArray[np.float64]:
        """Advantages and returns of the learnt rows. Returns what the batch sums of them: the number of valid rows;
        advantages, returns and the errors of values, each with its squares; clipped ratios."""
        t = self.trajectory
        valid = t["valid"][: self.rows]
        if trace.limits is None:
            values = np.concatenate([model.values(inputs) for inputs in self._every_row()])
            self._values = values.reshape(self.rows + 1, self.lanes)
            numbers = (self._rewards(reward_scale), self._values, t["terminated"], t["truncated"], t["valid"])
            self._estimates = VTrace(*gae(*numbers, trace.discount, trace.lambda_), valid.astype(np.float32))
        else:
            outputs = [model.host_outputs(inputs) for inputs in self._every_row()]
            policy = np.concatenate([part.policy for part in outputs], axis=1)[:, : self.rows * self.lanes]
            self._values = np.concatenate([part.value for part in outputs]).reshape(self.rows + 1, self.lanes)
            # From here on ratios are taken against the policy as it was before this update: V-trace weighs the rows
            # from the policy that acted to this one.
            evaluated = evaluate(self._network.head, policy, self._taken)
            self._log_prob = evaluated.log_prob.reshape(self.rows, self.lanes)
            log_ratio = self._log_prob - t["log_prob"]
            self._estimates = self.corrected(slice(None), log_ratio, self._values, trace, reward_scale)
        advantages, returns, rho = (estimate.astype(np.float64) for estimate in self._estimates)
        errors = (returns - self._values[:-1]) * valid
        sums = (total for part in (advantages, returns, errors) for total in (part.sum(), (part**2).sum()))
        return np.array([np.count_nonzero(valid), *sums, rho.sum()])

    def corrected(
        self, lanes: _Index, log_ratio: Array, values: Array, trace: Trace, reward_scale: float | None
    ) -> VTrace:
        """V-trace over some lanes. ``log_ratio`` is of T rows, ``values`` of one more; both may be flat."""
        assert trace.limits is not None
        t = self.trajectory
        terminated, truncated, valid = (t[name][:, lanes] for name in ("terminated", "truncated", "valid"))
        return vtrace(
            log_ratio.reshape(terminated.shape),
            self._rewards(reward_scale)[:, lanes],
            values.reshape(valid.shape),
            terminated,
            truncated,
            valid,
            trace.discount,
            trace.lambda_,
            *trace.limits,
        )

    def settle(self, mean: float, scale: float) -> None:
        """Fix the numbers that minibatches draw; advantages become (A - mean) * scale, times rho."""
        assert self._estimates is not None
        advantages, returns, rho = self._estimates
        self._set_columns((advantages - np.float32(mean)) * np.float32(scale) * rho, returns)

    def _rewards(self, scale: float | None) -> Array:
        reward = self.trajectory["reward"]
        if scale is None:
            return reward
        return np.clip(reward * np.float32(scale), -_REWARD_LIMIT, _REWARD_LIMIT)

    def _set_columns(self, advantages: Array, returns: Array) -> NDArray[np.float32]:
        parts = (self._log_prob, advantages, returns, self._values[:-1], self.trajectory["valid"][:-1])
        columns = np.concatenate([self._taken, *(part.reshape(1, -1) for part in parts)], dtype=np.float32)
        self._columns = columns
        self._whole = None
        return columns

    # Minibatches ------------------------------------------------------------------------------------------------------

    def minibatch(self, key: tuple[int, ...], epoch: int, index: int, count: int, as_numpy: bool) -> Minibatch:
        """Part ``index`` of ``count`` of this epoch's shuffle: rows, or whole lanes for a recurrent network.

        ``key`` and the epoch determine the shuffle. One part is the whole shard, which needs none.
        """
        assert self._columns is not None
        if count == 1:
            if self._whole is None:
                self._whole = self._drawn(slice(self.rows * self.lanes), slice(None), self.rows, as_numpy)
            return self._whole
        if self._network.recurrent:
            lanes = self.part_of_lanes(key, epoch, index, count)
            return self._drawn(self._rows_of(lanes, self.rows), lanes, self.rows, as_numpy)
        rows = self._part(self.rows * self.lanes, key, epoch, index, count)
        return self._drawn(rows, rows, 0, as_numpy)

    def part_of_lanes(self, key: tuple[int, ...], epoch: int, index: int, count: int) -> _Index:
        """Part ``index`` of ``count`` of this epoch's shuffle of the lanes."""
        return slice(None) if count == 1 else self._part(self.lanes, key, epoch, index, count)

    def sequences(self, lanes: _Index, as_numpy: bool) -> Minibatch:
        """Every row of some lanes. The inputs have the bootstrap row besides, at their end; advantages, returns and
        values are still to come."""
        if self._columns is None:
            unknown = np.zeros((self.rows, self.lanes), np.float32)
            self._set_columns(unknown, unknown)
        return self._drawn(self._rows_of(lanes, self.rows), lanes, self.rows + 1, as_numpy)

    def _part(self, units: int, key: tuple[int, ...], epoch: int, index: int, count: int) -> NDArray[np.int64]:
        if self._shuffle[0] != epoch:
            self._shuffle = (epoch, generator(*key, epoch).permutation(units))
        order = self._shuffle[1]
        return order[index * len(order) // count : (index + 1) * len(order) // count]

    def _rows_of(self, lanes: _Index, time: int) -> _Index:
        """The first ``time`` rows of some lanes, as flat rows."""
        if isinstance(lanes, slice):
            return slice(time * self.lanes)
        rows: NDArray[np.int64] = (np.arange(time)[:, None] * self.lanes + lanes).reshape(-1)
        return rows

    def _drawn(self, rows: _Index, lanes: _Index, time: int, as_numpy: bool) -> Minibatch:
        """Numbers of flat ``rows``; inputs of ``time`` rows of ``lanes`` (0: of the same flat rows)."""
        assert self._columns is not None
        columns = self._columns[:, rows] if isinstance(rows, slice) else self._columns.take(rows, axis=1)
        choices = len(columns) - _NUMBERS
        wrapped = columns if as_numpy else self._tensor(columns)
        inputs = self._inputs(self._rows_of(lanes, time) if time else rows, lanes, time)
        return Minibatch(inputs, wrapped[:choices], *wrapped[choices:])

    # The network's inputs ---------------------------------------------------------------------------------------------

    def _inputs(self, rows: _Index, lanes: _Index, time: int) -> Inputs:
        """The network's inputs for flat ``rows``; ``lanes`` and ``time`` say which of the stream they are."""
        images = {name: self._tensor(image[rows]) for name, image in self._images.items()}
        features = self._tensor(self._features[rows])
        if not self._network.recurrent:
            return Inputs(features, images)
        t = self.trajectory
        h, c = (self._tensor(t[name][lanes]) for name in ("state/h", "state/c"))
        return Inputs(features, images, self._tensor(t["first"][:time, lanes]), (h, c))

    def _every_row(self) -> Iterator[Inputs]:
        """The inputs of the whole shard and its bootstrap row, in parts that fit in memory."""
        if self._network.recurrent or not self._images:
            yield self._inputs(slice(None), slice(None), self.rows + 1)
            return
        for start in range(0, len(self._features), _FORWARD_ROWS):
            part = slice(start, start + _FORWARD_ROWS)
            yield self._inputs(part, part, 0)

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
