"""A ring of rows: experience is stored once, as lanes of rows, and transitions are made when they are drawn.

A row's successor in its lane is the next row, and an episode's final observation has a row of its own, so neither
next observations nor n-step returns are stored: for a drawn row t

    R_t = r_t + g r_(t+1) + ... + g^(m-1) r_(t+m-1),   bootstrapped with g^m V(obs_(t+m))

where m is n, or less where the episode ends or is cut before. A terminated end bootstraps with 0, a truncated one with
its final observation: they stay two things.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whorl.errors import CheckpointError
from whorl.replay.frames import AGE, Stacks, newest_only, stacked_leaves
from whorl.trajectory.layout import PER_LANE, PER_TRAJECTORY
from whorl.types import Array, Arrays, EnvSpec, Field, Layout, leaves_of

SEGMENT_BYTES = 16 * 1024 * 1024
"""About how much one file of a checkpoint holds of a ring: a segment that has not changed is not written again."""


class Transitions(NamedTuple):
    """A batch of drawn transitions, [N, ...]."""

    observation: Arrays
    action: Array
    reward: NDArray[np.float32]
    """Discounted sum over the m steps."""
    next_observation: Arrays
    discount: NDArray[np.float32]
    """g^m, or 0 where the episode terminated: what the next observation's value is multiplied with."""
    fields: Arrays
    """Whatever else was stored with the row."""

    def part(self, rows: slice) -> Transitions:
        """Some of them, as views."""
        return Transitions(
            {name: leaf[rows] for name, leaf in self.observation.items()},
            self.action[rows],
            self.reward[rows],
            {name: leaf[rows] for name, leaf in self.next_observation.items()},
            self.discount[rows],
            {name: field[rows] for name, field in self.fields.items()},
        )


def with_cut(trajectory: Arrays) -> Arrays:
    """The trajectory with a row more, that of its last observation, which only bootstraps: for rings whose next rows do
    not follow on these. Returns over n steps are cut there, as they are where an episode is."""
    rows = len(trajectory["reward"])
    longer = dict(trajectory)
    for name, array in trajectory.items():
        if name in PER_TRAJECTORY or name.startswith(PER_LANE):
            continue
        longer[name] = array[: rows + 1] if len(array) > rows else np.concatenate([array, np.zeros_like(array[:1])])
    longer["valid"] = longer["valid"].copy()
    longer["valid"][rows] = False
    return longer


def in_one_column(trajectory: Arrays) -> Arrays:
    """Rows [T, B, ...] lane after lane as [B * T, 1, ...]: for rings that do not know lanes. Nothing but rows and
    states (one for each lane) is kept."""
    rows = len(trajectory["reward"])
    column: Arrays = {}
    for name, array in trajectory.items():
        if name.startswith("state/"):
            column[name] = array
        elif name not in PER_TRAJECTORY and not name.startswith(PER_LANE):
            column[name] = array[:rows].swapaxes(0, 1).reshape(-1, 1, *array.shape[2:])
    return column


def row_layout(env: EnvSpec, lanes: int, rows: int, extra: Sequence[Field] = ()) -> Layout:
    """The arrays of a ring: [rows, lanes, ...]."""
    age = (Field(AGE, (rows, lanes), "uint8"),) if stacked_leaves(env) else ()
    return Layout(
        (
            *newest_only(env).observation_fields("obs/", rows, lanes),
            *age,
            Field("action", (rows, lanes, *env.action.shape), env.action.dtype),
            Field("reward", (rows, lanes), "float32"),
            *(Field(name, (rows, lanes), "bool") for name in ("terminated", "truncated", "valid")),
            *(Field(field.name, (rows, lanes, *field.shape), field.dtype) for field in extra),
        )
    )


class RowRing:
    """The last ``rows`` rows of some lanes. Indices are ``slot * lanes + lane``."""

    def __init__(
        self, env: EnvSpec, lanes: int, rows: int, n_step: int, discount: float, extra: Sequence[Field] = ()
    ) -> None:
        if rows <= n_step:
            raise ValueError(f"a ring of {rows} rows cannot hold returns over {n_step} steps")
        self.lanes, self.rows, self.n_step, self.discount = lanes, rows, n_step, discount
        self.head = 0
        """Rows written so far, per lane."""
        layout = row_layout(env, lanes, rows, extra)
        self.arrays = layout.views(layout.allocate())
        """[rows, lanes, ...], by slot."""
        self._flat = {name: array.reshape(rows * lanes, *array.shape[2:]) for name, array in self.arrays.items()}
        self._observation = leaves_of(self._flat, "obs/")
        self._extra = [field.name for field in extra]
        self._stacks = Stacks(env)
        self._powers = np.power(discount, np.arange(n_step + 1)).astype(np.float32)

    @property
    def capacity(self) -> int:
        """Places for rows, over all lanes."""
        return self.rows * self.lanes

    @property
    def lead_rows(self) -> int:
        """Rows that ``apart`` puts before a trajectory."""
        return self._stacks.lead_rows

    def apart(self, trajectory: Arrays) -> Arrays:
        """The trajectory with all that it needs where neither the rows before it nor those behind it follow on it."""
        return self._stacks.with_lead(with_cut(trajectory))

    def insert(self, trajectory: Arrays) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Append a trajectory's rows. Returns the indices that can be drawn from now on, and those that no longer
        can."""
        if not self.head and not trajectory["first"][0].all():
            trajectory = self._stacks.with_lead(trajectory)
        count = len(trajectory["reward"])
        if count + self.n_step + self.lead_rows >= self.rows:
            raise ValueError(f"a trajectory of {count} rows does not fit a ring of {self.rows} rows")
        before = self._drawable(self.head)
        after = self._drawable(self.head + count)
        if self.head:
            self._close_given_up(trajectory["first"][0])
        old = self._indices(before.start, min(before.stop, after.start))
        old = old[self._flat["valid"][old]]
        slots = self._slots(self.head, self.head + count)
        for name, array in self.arrays.items():
            array[slots] = self._stored(name, trajectory, count)
        self.head += count
        new = self._indices(max(after.start, before.stop), after.stop)
        return new[self._flat["valid"][new]], old

    def _stored(self, name: str, trajectory: Arrays, count: int) -> Array:
        if name == AGE:
            before = self.arrays[AGE][(self.head - 1) % self.rows]
            return self._stacks.ages(trajectory["first"][:count], before)
        if name.startswith("obs/"):
            return self._stacks.newest(name.removeprefix("obs/"), trajectory[name][:count])
        return trajectory[name][:count]

    def _close_given_up(self, begins: Array) -> None:
        """Where the next row begins an episode, the last one here is of an episode that was given up between two
        trajectories, unless it is one that only bootstraps. What its step led to is not known: it becomes such a row,
        as that of a fault is. A terminated one needs no next observation."""
        last = (self.head - 1) % self.rows
        self.arrays["valid"][last] &= ~begins | self.arrays["terminated"][last]

    def next_places(self, trajectory: Arrays) -> NDArray[np.int64]:
        """The indices that a trajectory's rows are going to have."""
        return self._indices(self.head, self.head + len(trajectory["reward"]))

    def _drawable(self, head: int) -> range:
        """Rows (counted from the beginning) whose whole n-step return is stored, and the whole of their stacks."""
        begin = head - self.rows + self.lead_rows if head > self.rows else 0
        return range(begin, max(begin, head - self.n_step))

    def _slots(self, start: int, stop: int) -> slice | NDArray[np.int64]:
        """Where these rows lie: side by side, unless the ring's end is between them."""
        at = start % self.rows
        return slice(at, at + stop - start) if at + stop - start <= self.rows else np.arange(start, stop) % self.rows

    def _indices(self, start: int, stop: int) -> NDArray[np.int64]:
        if stop <= start:
            return np.zeros(0, np.int64)
        slots = np.arange(start, stop) % self.rows
        return (slots[:, None] * self.lanes + np.arange(self.lanes)).reshape(-1)

    def take(self, indices: Array) -> Transitions:
        """The transitions that begin at these indices."""
        flat = self._flat
        reward, terminated = flat["reward"].take(indices), flat["terminated"].take(indices)
        last = self._later(indices)
        discount = np.full(len(indices), self._powers[1])
        if self.n_step > 1:
            going_on = ~terminated & ~flat["truncated"].take(indices)
            for power in range(1, self.n_step):
                going_on &= flat["valid"].take(last)  # a fault: its row only bootstraps
                ended = flat["terminated"].take(last)
                reward += np.where(going_on, self._powers[power] * flat["reward"].take(last), np.float32(0))
                discount[going_on] = self._powers[power + 1]
                terminated |= going_on & ended
                at, last = last, np.where(going_on, self._later(last), last)
                going_on &= ~(ended | flat["truncated"].take(at))
        discount[terminated] = 0
        return Transitions(
            observation=self._gather(indices),
            action=flat["action"].take(indices, 0),
            reward=reward,
            next_observation=self._gather(last),
            discount=discount,
            fields={name: flat[name].take(indices, 0) for name in self._extra},
        )

    def _gather(self, indices: Array) -> Arrays:
        ages = self._flat.get(AGE, indices)
        return {
            name: self._stacks.gather(name, leaf, ages, indices, self.lanes) for name, leaf in self._observation.items()
        }

    def _later(self, indices: Array) -> NDArray[np.int64]:
        """One row later in the same lanes."""
        later = indices + self.lanes
        later[later >= self.capacity] -= self.capacity
        return later

    def generations(self, indices: Array) -> NDArray[np.int64]:
        """How often each place has been filled."""
        return (self.head - 1 - indices // self.lanes) // self.rows

    @property
    def drawable(self) -> NDArray[np.int64]:
        """Every index that can be drawn, oldest first."""
        indices = self._indices(*_ends(self._drawable(self.head)))
        return indices[self._flat["valid"][indices]]

    def segments(self) -> dict[str, Arrays]:
        """What is stored, in pieces ``rows-000``, ``rows-001``, ... that are views of the ring. ``stamp`` is the number
        of rows that had been written when the piece could last change: with the first row after it."""
        pieces: dict[str, Arrays] = {}
        for number, slots in enumerate(self._segments()):
            if slots.start >= self.head:
                break
            # The last row before the head that lies here.
            last = self.head - 1 - (self.head - 1 - (slots.stop - 1)) % self.rows
            stamp = self.head if (self.head - 1) % self.rows in slots else last + 2
            part = slice(slots.start, slots.stop)
            views = {name: array[part] for name, array in self.arrays.items()}
            pieces[f"rows-{number:03}"] = {"stamp": np.array(stamp, np.int64), **views}
        return pieces

    def load(self, head: int, pieces: Mapping[str, Arrays]) -> None:
        """The inverse of ``segments``, with the ``head`` of then."""
        self.head = head
        for number, slots in enumerate(self._segments()):
            if slots.start >= head:
                break
            piece = pieces.get(f"rows-{number:03}", {})
            for name, array in self.arrays.items():
                part = array[slots.start : slots.stop]
                if name not in piece or piece[name].shape != part.shape:
                    raise CheckpointError(f"the saved replay does not fit: {name!r} was of another size or is missing")
                part[...] = piece[name]

    def _segments(self) -> list[range]:
        row_bytes = sum(array.nbytes for array in self.arrays.values()) // self.rows
        each = max(1, SEGMENT_BYTES // max(1, row_bytes))
        return [range(start, min(start + each, self.rows)) for start in range(0, self.rows, each)]


def _ends(rows: range) -> tuple[int, int]:
    return rows.start, rows.stop
