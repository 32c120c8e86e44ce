"""A sum tree: draws indices in proportion to their priorities, in O(log n), with the maximum at hand.

Every node is recomputed from its children and never by differences, so that no rounding creeps in and a restored tree
has the same bits. Nodes have 32 children: four levels hold a million leaves, and each level is one numpy operation over
the whole batch, so there is no Python loop per sample.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whorl.types import Array

FAN_OUT = 32


class SumTree:
    """Priorities of ``capacity`` leaves, all 0 at first.

    >>> tree = SumTree(4)
    >>> tree.set(np.array([0, 2]), np.array([1.0, 3.0]))
    >>> tree.total, tree.maximum
    (4.0, 3.0)
    >>> tree.find(np.array([0.5, 1.5, 3.9])).tolist()
    [0, 2, 2]
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"a tree needs at least one leaf, got {capacity}")
        self.capacity = capacity
        self._sums: list[NDArray[np.float64]] = []
        self._maxima: list[NDArray[np.float64]] = []
        size = capacity
        while True:
            size = -(-size // FAN_OUT)
            self._sums.append(np.zeros((size, FAN_OUT)))
            self._maxima.append(self._sums[0] if len(self._sums) == 1 else np.zeros((size, FAN_OUT)))
            if size == 1:
                break

    @property
    def leaves(self) -> NDArray[np.float64]:
        """Every priority, [capacity]. A view: change it by ``set`` and ``load`` only."""
        return self._sums[0].reshape(-1)[: self.capacity]

    @property
    def total(self) -> float:
        """The sum of all priorities."""
        return float(self._sums[-1].sum())

    @property
    def maximum(self) -> float:
        """The largest priority."""
        return float(self._maxima[-1].max())

    def set(self, indices: Array, priorities: Array) -> None:
        """Give leaves new priorities. Of an index that comes twice, the last one counts."""
        self._sums[0].reshape(-1)[indices] = priorities
        nodes = indices // FAN_OUT
        for level in range(len(self._sums) - 1):
            sums, maxima = self._sums[level][nodes], self._maxima[level][nodes]
            self._sums[level + 1].reshape(-1)[nodes] = sums.sum(1)
            self._maxima[level + 1].reshape(-1)[nodes] = maxima.max(1)
            nodes = nodes // FAN_OUT

    def find(self, values: Array) -> NDArray[np.int64]:
        """The leaf at which the running sum of priorities passes each value in [0, total). Leaves of priority 0 are
        never found, whatever the rounding."""
        nodes = np.zeros(len(values), np.int64)
        remaining = np.asarray(values, np.float64)
        for sums in reversed(self._sums):
            running = np.cumsum(sums[nodes], axis=1)
            # A value that rounding pushed past its node's sum belongs to the last child that has any priority.
            remaining = np.minimum(remaining, np.nextafter(running[:, -1], 0.0))
            child = (running <= remaining[:, None]).sum(1)
            before = np.where(child > 0, running[np.arange(len(child)), child - 1], 0.0)
            remaining = remaining - before
            nodes = nodes * FAN_OUT + child
        return nodes

    def load(self, priorities: Array) -> None:
        """Replace every priority."""
        self.leaves[:] = priorities
        for level in range(len(self._sums) - 1):
            count = len(self._sums[level])
            self._sums[level + 1].reshape(-1)[:count] = self._sums[level].sum(1)
            self._maxima[level + 1].reshape(-1)[:count] = self._maxima[level].max(1)
