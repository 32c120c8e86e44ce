"""Which rows of the plate are this rank's, and what the ranks tell each other. Buffers of numbers, never pickles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from whorl.types import Array

_UP, _DOWN = 1, 2


class Rows:
    """The plate's rows, split over ranks in order and as evenly as they go. With one rank nothing is sent."""

    def __init__(self, cells: int, comm: Any, rank: int, size: int, wait_for: Callable[..., None]) -> None:
        if size > cells:
            raise ValueError(f"a plate of {cells} rows can be split over {cells} ranks at most, not {size}")
        self._comm, self._rank, self._size, self._wait_for = comm, rank, size, wait_for
        bounds = [cells * index // size for index in range(size + 1)]
        self._counts = np.diff(bounds)
        self.first, self.last = bounds[rank], bounds[rank + 1]

    def exchange(self, neighbours: tuple[Array, Array, Array, Array]) -> None:
        """Send the outer rows to the ranks above and below, and take theirs. See ``Plate.neighbours``."""
        if self._size == 1:
            return
        from_above, top, bottom, from_below = neighbours
        comm, above, below = self._comm, self._rank - 1, self._rank + 1
        requests = []
        if above >= 0:
            requests += [comm.Irecv(from_above, above, _DOWN), comm.Isend(top, above, _UP)]
        if below < self._size:
            requests += [comm.Irecv(from_below, below, _UP), comm.Isend(bottom, below, _DOWN)]
        self._wait_for(*requests)

    def gather(self, mine: Array) -> Array | None:
        """[rows, ...] of all ranks, in the order of the plate, at the first rank; None at the others."""
        if self._size == 1:
            return mine
        mine = np.ascontiguousarray(mine, np.float64)
        width = mine[0].size
        whole = np.empty((int(self._counts.sum()), *mine.shape[1:])) if self._rank == 0 else None
        sizes = (self._counts * width).tolist()
        self._wait_for(self._comm.Igatherv(mine, None if whole is None else [whole, sizes], 0))
        return whole
