"""Replay of transitions: drawn uniformly, or in proportion to priorities (Schaul et al. 2016).

    replay.insert(trajectory)
    batch = replay.draw(uniforms, beta)
    ...learn from batch.transitions with batch.weights...
    replay.set_priorities(batch, errors)

One of these holds the lanes of one shard. Draws follow from the uniform numbers given, so that a run is repeatable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whorl.errors import CheckpointError
from whorl.replay.rows import RowRing, Transitions
from whorl.replay.sum_tree import SumTree
from whorl.types import Array, Arrays, EnvSpec, Field

PRIORITY_FLOOR = 1e-6
"""Added to every priority, so that no transition is never drawn again."""


class Batch(NamedTuple):
    """Drawn transitions, where they lie, and their importance weights."""

    transitions: Transitions
    weights: NDArray[np.float32]
    """(1 / (size * P(i)))^beta over the largest of the batch; all 1 for uniform draws."""
    indices: NDArray[np.int64]
    generations: NDArray[np.int64]
    """How often each place had been filled: priorities that come back for an overwritten row are dropped."""


class Replay:
    """A bounded memory of rows. ``alpha`` 0 draws uniformly; more follows the priorities more closely."""

    def __init__(
        self,
        env: EnvSpec,
        lanes: int,
        rows: int,
        *,
        n_step: int = 1,
        discount: float = 0.99,
        alpha: float = 0.0,
        extra: Sequence[Field] = (),
    ) -> None:
        self._ring = RowRing(env, lanes, rows, n_step, discount, extra)
        self._alpha = alpha
        self._tree = SumTree(self._ring.capacity) if alpha > 0 else None
        # Drawable indices, oldest first, in a ring of their own: uniform draws index it.
        self._order = np.zeros(self._ring.capacity, np.int64)
        self._first, self._size = 0, 0

    def __len__(self) -> int:
        """Transitions that can be drawn."""
        return self._size

    @property
    def total_priority(self) -> float:
        """The sum that draws are in proportion to; the number of transitions for uniform draws."""
        return self._tree.total if self._tree is not None else float(self._size)

    def insert(self, trajectory: Arrays) -> None:
        """Take in a trajectory. New transitions get the largest priority there is, so that each is drawn soon."""
        new, old = self._ring.insert(trajectory)
        self._forget(old)
        at = (self._first + self._size + np.arange(len(new))) % len(self._order)
        self._order[at] = new
        self._size += len(new)
        if self._tree is not None:
            self._tree.set(old, np.zeros(len(old)))
            self._tree.set(new, np.full(len(new), self._tree.maximum or 1.0))

    def _forget(self, old: Array) -> None:
        """Drop what can no longer be drawn: always the oldest, so a part of the order's beginning."""
        gone = np.zeros(self._ring.capacity, np.bool_)
        gone[old] = True
        oldest = self._order[(self._first + np.arange(min(len(old), self._size))) % len(self._order)]
        dropped = int(np.count_nonzero(gone[oldest]))
        self._first = (self._first + dropped) % len(self._order)
        self._size -= dropped

    def draw(self, uniforms: Array, beta: float = 1.0) -> Batch:
        """As many transitions as there are numbers in [0, 1). Prioritised draws are stratified: one in each of equal
        parts of the whole."""
        if not self._size:
            raise ValueError("nothing can be drawn from an empty replay")
        if self._tree is None:
            at = np.minimum((uniforms * self._size).astype(np.int64), self._size - 1)
            indices = self._order[(self._first + at) % len(self._order)]
            weights = np.ones(len(indices), np.float32)
        else:
            count = len(uniforms)
            indices = self._tree.find((np.arange(count) + uniforms) / count * self._tree.total)
            chance = self._tree.leaves[indices] / self._tree.total
            weights = np.power(self._size * chance, -beta)
            weights = (weights / weights.max()).astype(np.float32)
        return Batch(self._ring.take(indices), weights, indices, self._generations(indices))

    def _generations(self, indices: Array) -> NDArray[np.int64]:
        slots = indices // self._ring.lanes
        return (self._ring.head - 1 - slots) // self._ring.rows

    def set_priorities(self, indices: Array, generations: Array, errors: Array) -> None:
        """Priorities become (|error| + floor)^alpha. Rows that were overwritten since are left alone."""
        if self._tree is None:
            return
        current = (generations == self._generations(indices)) & (self._tree.leaves[indices] > 0)
        priorities = np.power(np.abs(errors.astype(np.float64)) + PRIORITY_FLOOR, self._alpha)
        self._tree.set(indices[current], priorities[current])

    def save(self) -> dict[str, Arrays]:
        """Everything, as pieces for a checkpoint (views, not copies): ``state``, and segments of rows that hold a
        ``stamp`` by which an unchanged one is known."""
        state: Arrays = {"head": np.array(self._ring.head, np.int64)}
        if self._tree is not None:
            state["priorities"] = self._tree.leaves
        return {"state": state, **self._ring.segments()}

    def load(self, pieces: Mapping[str, Arrays]) -> None:
        """The inverse of ``save``, into a replay of the same size."""
        state = pieces["state"]
        if (self._tree is not None) != ("priorities" in state):
            raise CheckpointError("the saved replay was prioritised and this one is not, or the other way round")
        self._ring.load(int(state["head"]), pieces)
        drawable = self._ring.drawable
        self._first, self._size = 0, len(drawable)
        self._order[: self._size] = drawable
        if self._tree is not None:
            self._tree.load(state["priorities"])
