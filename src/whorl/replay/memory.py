"""A memory of experience: drawn uniformly, or in proportion to priorities (Schaul et al. 2016).

    memory.insert(trajectory)
    batch = memory.draw(uniforms, beta)
    ...learn from batch.transitions with batch.weights...
    memory.set_priorities(batch.indices, batch.generations, errors)

What is drawn is the business of the ring underneath: transitions, or whole sequences. One memory holds the lanes of one
shard. Draws follow from the uniform numbers given, so that a run is repeatable.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from whorl.errors import CheckpointError
from whorl.replay.sum_tree import SumTree
from whorl.types import Array, Arrays

PRIORITY_FLOOR = 1e-6
"""Added to every priority, so that nothing is never drawn again."""

Item = TypeVar("Item")
Item_co = TypeVar("Item_co", covariant=True)


class Ring(Protocol[Item_co]):
    """Where rows lie, and what begins at each of ``capacity`` places."""

    @property
    def head(self) -> int:
        """Rows written so far, per lane."""
        ...

    @property
    def capacity(self) -> int:
        """Places that can be drawn."""
        ...

    @property
    def drawable(self) -> NDArray[np.int64]:
        """Every place that can be drawn, oldest first."""
        ...

    @property
    def lead_rows(self) -> int:
        """Rows that ``apart`` puts before a trajectory."""
        ...

    def apart(self, trajectory: Arrays) -> Arrays:
        """The trajectory with all that it needs where neither the rows before it nor those behind it follow on it: a
        row behind it, and perhaps some before it."""
        ...

    def insert(self, trajectory: Arrays) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Append rows: the places that can be drawn from now on, and those that no longer can, oldest first."""
        ...

    def take(self, indices: Array) -> Item_co:
        """What begins at these places."""
        ...

    def next_places(self, trajectory: Arrays) -> NDArray[np.int64]:
        """The places that a trajectory is going to take: one for each of its rows and lanes, in that order, or for
        each of its sequences."""
        ...

    def generations(self, indices: Array) -> NDArray[np.int64]:
        """How often each place has been filled."""
        ...

    def segments(self) -> dict[str, Arrays]:
        """The rows in pieces for a checkpoint."""
        ...

    def load(self, head: int, pieces: Mapping[str, Arrays]) -> None:
        """The inverse of ``segments``."""
        ...


class Drawn(NamedTuple, Generic[Item]):
    """A draw: what it holds, where that lies, and its importance weights."""

    transitions: Item
    weights: NDArray[np.float32]
    """(1 / (size * P(i)))^beta over the largest of the draw; all 1 for uniform draws."""
    indices: NDArray[np.int64]
    generations: NDArray[np.int64]
    """How often each place had been filled: priorities that come back for an overwritten one are dropped."""


class Source(Protocol[Item]):
    """What can be learnt from: a memory, or what was drawn from one elsewhere."""

    def __len__(self) -> int: ...

    def draw(self, uniforms: Array, beta: float = 1.0) -> Drawn[Item]:
        """As many as there are numbers."""
        ...

    def set_priorities(self, indices: Array, generations: Array, errors: Array) -> int:
        """New errors of what was drawn. Returns how many came too late."""
        ...


class Memory(Generic[Item]):
    """A bounded memory over a ring. ``alpha`` 0 draws uniformly; more follows the priorities more closely."""

    def __init__(self, ring: Ring[Item], alpha: float) -> None:
        self._ring = ring
        self._alpha = alpha
        self._tree = SumTree(ring.capacity) if alpha > 0 else None
        # Drawable places, oldest first, in a ring of their own: uniform draws index it.
        self._order = np.zeros(ring.capacity, np.int64)
        self._first, self._size = 0, 0
        self._initial = np.zeros(0)
        """Priorities that came with what was inserted; 0 where none did. Empty until some do."""

    def __len__(self) -> int:
        """What can be drawn."""
        return self._size

    @property
    def total_priority(self) -> float:
        """The sum that draws are in proportion to; their number for uniform draws."""
        return self._tree.total if self._tree is not None else float(self._size)

    @property
    def capacity(self) -> int:
        """Places that can be drawn, at most."""
        return self._ring.capacity

    @property
    def lead_rows(self) -> int:
        """Rows that ``apart`` puts before a trajectory."""
        return self._ring.lead_rows

    def apart(self, trajectory: Arrays) -> Arrays:
        """The trajectory, to be inserted where trajectories do not follow on each other."""
        return self._ring.apart(trajectory)

    def places_of(self, trajectory: Arrays) -> int:
        """How many places a trajectory takes."""
        return len(self._ring.next_places(trajectory))

    def take(self, indices: Array) -> Item:
        """What begins at these places."""
        return self._ring.take(indices)

    def insert(self, trajectory: Arrays, errors: Array | None = None) -> None:
        """Take in a trajectory. What is new gets the priority of its error (one for each place that it takes), or the
        largest there is, so that it is drawn soon."""
        if errors is not None and self._tree is not None:
            if not len(self._initial):
                self._initial = np.zeros(self.capacity)
            self._initial[self._ring.next_places(trajectory)] = self._priorities(errors.reshape(-1))
        new, old = self._ring.insert(trajectory)
        self._first = (self._first + len(old)) % len(self._order)
        at = (self._first + self._size - len(old) + np.arange(len(new))) % len(self._order)
        self._order[at] = new
        self._size += len(new) - len(old)
        if self._tree is not None:
            self._tree.set(old, np.zeros(len(old)))
            self._tree.set(new, self._first_priorities(new))

    def _first_priorities(self, new: Array) -> Array:
        assert self._tree is not None
        largest = self._tree.maximum or 1.0
        if not len(self._initial):
            return np.full(len(new), largest)
        given = self._initial.take(new)
        return np.where(given > 0, given, largest)

    def _priorities(self, errors: Array) -> Array:
        """(|error| + floor)^alpha"""
        priorities: Array = np.power(np.abs(errors.astype(np.float64)) + PRIORITY_FLOOR, self._alpha)
        return priorities

    def draw(self, uniforms: Array, beta: float = 1.0) -> Drawn[Item]:
        """As many as there are numbers in [0, 1). Prioritised draws are stratified: one in each of equal
        parts of the whole."""
        if not self._size:
            raise ValueError("nothing can be drawn from an empty replay")
        if self._tree is None:
            at = np.minimum((uniforms * self._size).astype(np.int64), self._size - 1)
            indices = self._order[(self._first + at) % len(self._order)]
            weights = np.ones(len(indices), np.float32)
        else:
            count = len(uniforms)
            indices = self._tree.find((np.arange(count) + uniforms) * (self._tree.total / count))
            # (size * P(i))^-beta over the largest, which belongs to the smallest priority: all else cancels out.
            priorities = self._tree.leaves.take(indices)
            weights = np.power(priorities.min() / priorities, beta).astype(np.float32)
        return Drawn(self._ring.take(indices), weights, indices, self._ring.generations(indices))

    def set_priorities(self, indices: Array, generations: Array, errors: Array) -> int:
        """Priorities become (|error| + floor)^alpha. Places that were overwritten since are left alone; returns how
        many."""
        if self._tree is None:
            return 0
        current = (generations == self._ring.generations(indices)) & (self._tree.leaves.take(indices) > 0)
        late = len(current) - int(np.count_nonzero(current))
        if late:
            indices, errors = indices[current], errors[current]
        self._tree.set(indices, self._priorities(errors))
        return late

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
