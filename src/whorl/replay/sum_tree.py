"""A sum tree: draws indices in proportion to their priorities, in O(log n), with the maximum at hand.

Every node is recomputed from its children and never by differences, so that no rounding creeps in and a restored tree
has the same bits. Nodes have 16 children, up to a top of at most 4096 nodes that is searched as one running sum: so a
million leaves are two levels and the top, and each level is a few numpy operations over the whole batch. There is no
Python loop per sample.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whorl.types import Array

FAN_OUT = 16
TOP = 4096


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
        """By level, leaves first: [nodes, children]."""
        self._maxima: list[NDArray[np.float64]] = []
        nodes = capacity
        while not self._sums or nodes > TOP:
            nodes = -(-nodes // FAN_OUT)
            self._sums.append(np.zeros((nodes, FAN_OUT)))
            self._maxima.append(np.zeros((nodes, FAN_OUT)) if self._maxima else self._sums[0])
        self._top_sums, self._top_maxima = np.zeros(nodes), np.zeros(nodes)
        self._running = np.zeros(nodes + 1)
        """Of the top's sums, with a 0 before them."""
        self._scratch: dict[int, tuple[NDArray[np.float64], NDArray[np.int64]]] = {}

    @property
    def leaves(self) -> NDArray[np.float64]:
        """Every priority, [capacity]. A view: change it by ``set`` and ``load`` only."""
        return self._sums[0].reshape(-1)[: self.capacity]

    @property
    def total(self) -> float:
        """The sum of all priorities."""
        return float(self._running[-1])

    @property
    def maximum(self) -> float:
        """The largest priority."""
        return float(self._top_maxima.max())

    def set(self, indices: Array, priorities: Array) -> None:
        """Give leaves new priorities. Of an index that comes twice, the last one counts."""
        self._sums[0].reshape(-1)[indices] = priorities
        nodes = indices // FAN_OUT
        for level in range(len(self._sums)):
            sums = _columns(self._sums[level].take(nodes, 0))
            maxima = _columns(self._maxima[level].take(nodes, 0)) if level else sums
            sums_above, maxima_above = self._above(level)
            sums_above[nodes], maxima_above[nodes] = _folded(np.add, sums), _folded(np.maximum, maxima)
            nodes = nodes // FAN_OUT
        np.cumsum(self._top_sums, out=self._running[1:])

    def find(self, values: Array) -> NDArray[np.int64]:
        """The leaf at which the running sum of priorities passes each value in [0, total). Leaves of priority 0 are
        never found, whatever the rounding."""
        # A value that rounding pushed past a node's sum belongs to its last child that has any priority.
        remaining = np.minimum(values, np.nextafter(self._running[-1], 0.0))
        nodes: NDArray[np.int64] = self._running[1:].searchsorted(remaining, "right")
        remaining -= self._running.take(nodes)
        running, rows = self._buffers(len(remaining))
        sums_to = running[:, 1:]
        for sums in reversed(self._sums):
            np.cumsum(sums.take(nodes, 0), axis=1, out=sums_to)
            np.minimum(remaining, np.nextafter(running[:, -1], 0.0), out=remaining)
            child = (sums_to <= remaining[:, None]).argmin(1)
            remaining -= running.reshape(-1).take(rows + child)
            nodes = nodes * FAN_OUT + child
        found: NDArray[np.int64] = nodes
        return found

    def load(self, priorities: Array) -> None:
        """Replace every priority."""
        self.leaves[:] = priorities
        for level in range(len(self._sums)):
            sums_above, maxima_above = self._above(level)
            count = len(self._sums[level])
            sums_above[:count] = _folded(np.add, _columns(self._sums[level]))
            maxima_above[:count] = _folded(np.maximum, _columns(self._maxima[level]))
        np.cumsum(self._top_sums, out=self._running[1:])

    def _above(self, level: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The sums and maxima of a level's nodes, by node."""
        if level + 1 == len(self._sums):
            return self._top_sums, self._top_maxima
        return self._sums[level + 1].reshape(-1), self._maxima[level + 1].reshape(-1)

    def _buffers(self, count: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Running sums of one node's children for each value, with a 0 before them, and where each begins."""
        found = self._scratch.get(count)
        if found is None:
            width = FAN_OUT + 1
            found = self._scratch[count] = (np.zeros((count, width)), np.arange(0, count * width, width))
        return found


def _columns(children: NDArray[np.float64]) -> NDArray[np.float64]:
    """Children of nodes [nodes, children] as columns: operations along the nodes are quick."""
    return np.ascontiguousarray(children.T)


def _folded(operation: np.ufunc, columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """The columns put together half by half. Numpy's own sum orders its additions by the shape it meets; this order is
    the same for any number of nodes."""
    while len(columns) > 1:
        half = len(columns) // 2
        columns = operation(columns[:half], columns[half:])
    folded: NDArray[np.float64] = columns[0]
    return folded
