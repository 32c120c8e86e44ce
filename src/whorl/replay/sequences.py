"""Replay of whole sequences, for recurrent networks (Kapturowski et al. 2019).

A trajectory arrives with the recurrent state before its first row, and that is where sequences begin:

    trajectory k       | trajectory k + 1   |
    [ lead ][ learnt: as many rows as a trajectory ][ tail ]
    ^ stored state

The lead rows only warm the state up, the tail rows only bootstrap. Rows are stored once, and every row but a lane's
first ``lead`` ones is learnt in exactly one sequence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whorl.errors import CheckpointError
from whorl.replay.frames import as_they_are
from whorl.replay.memory import Drawn, Memory
from whorl.replay.rows import RowRing
from whorl.types import Array, Arrays, EnvSpec, Field, leaves_of

_FIRST = Field("first", (), "bool")


class Sequences(NamedTuple):
    """Drawn sequences: rows [lead + learnt + tail, N, ...], and the state [N, ...] before the first of them."""

    observation: Arrays
    action: Array
    reward: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    valid: NDArray[np.bool_]
    first: NDArray[np.bool_]
    state: Arrays

    def part(self, columns: slice) -> Sequences:
        """Some of them, as views."""
        return Sequences(
            {name: leaf[:, columns] for name, leaf in self.observation.items()},
            self.action[:, columns],
            self.reward[:, columns],
            self.terminated[:, columns],
            self.truncated[:, columns],
            self.valid[:, columns],
            self.first[:, columns],
            {name: array[columns] for name, array in self.state.items()},
        )


class SequenceRing:
    """The last ``rows`` rows of some lanes as sequences. Indices are ``slot of the trajectory * lanes + lane``."""

    def __init__(
        self, env: EnvSpec, lanes: int, rows: int, *, length: int, lead: int, tail: int, state: Sequence[Field]
    ) -> None:
        self.lanes, self.length, self.span = lanes, length, lead + length + tail
        self.blocks = rows // length
        """Trajectories that are kept."""
        if self.blocks * length < self.span + length:
            raise ValueError(f"{rows} rows cannot hold sequences of {self.span} rows that begin every {length}")
        self._ring = RowRing(as_they_are(env), lanes, self.blocks * length, 1, 1.0, (_FIRST,))
        self._states: Arrays = {f.name: np.zeros((self.blocks, lanes, *f.shape), f.dtype) for f in state}

    @property
    def head(self) -> int:
        """Rows written so far, per lane."""
        return self._ring.head

    @property
    def capacity(self) -> int:
        """Sequences that could begin somewhere."""
        return self.blocks * self.lanes

    @property
    def drawable(self) -> NDArray[np.int64]:
        """Every sequence that is stored whole, oldest first."""
        whole = self._drawable(self.head)
        return self._indices(whole.start, whole.stop)

    @property
    def lead_rows(self) -> int:
        """None: a sequence's rows lie side by side, with whole stacks of frames."""
        return 0

    def apart(self, trajectory: Arrays) -> Arrays:
        """The trajectory with a row more that cuts it off."""
        return self._ring.apart(trajectory)

    def insert(self, trajectory: Arrays) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Append a trajectory, or several one after the other with the states before each. Returns the sequences that
        can be drawn from now on, and those that no longer can."""
        count, rest = divmod(len(trajectory["reward"]), self.length)
        if rest or not count:
            raise ValueError(f"a trajectory of {self.length} rows is expected, got {len(trajectory['reward'])}")
        before = self._drawable(self.head)
        slots = np.arange(self.head // self.length, self.head // self.length + count) % self.blocks
        for name, array in self._states.items():
            array[slots] = trajectory[f"state/{name}"].reshape(count, self.lanes, *array.shape[2:])
        self._ring.insert(trajectory)
        after = self._drawable(self.head)
        old = self._indices(before.start, min(before.stop, after.start))
        return self._indices(max(before.stop, after.start), after.stop), old

    def next_places(self, trajectory: Arrays) -> NDArray[np.int64]:
        """The indices that the sequences beginning with a trajectory are going to have."""
        begin = self.head // self.length
        return self._indices(begin, begin + len(trajectory["reward"]) // self.length)

    def _drawable(self, head: int) -> range:
        """Trajectories (counted from the beginning) at which a stored sequence begins."""
        written = head // self.length
        return range(max(0, written - self.blocks), max(0, (head - self.span) // self.length + 1))

    def _indices(self, start: int, stop: int) -> NDArray[np.int64]:
        slots = np.arange(start, max(start, stop)) % self.blocks
        return (slots[:, None] * self.lanes + np.arange(self.lanes)).reshape(-1)

    def take(self, indices: Array) -> Sequences:
        """The sequences that begin at these indices."""
        slots, lanes = np.divmod(indices, self.lanes)
        rows = (slots * self.length + np.arange(self.span)[:, None]) % self._ring.rows
        stored = {name: array[rows, lanes] for name, array in self._ring.arrays.items()}
        return Sequences(
            observation=leaves_of(stored, "obs/"),
            **{name: stored[name] for name in ("action", "reward", "terminated", "truncated", "valid", "first")},
            state={name: array[slots, lanes] for name, array in self._states.items()},
        )

    def generations(self, indices: Array) -> NDArray[np.int64]:
        """How often each place has been filled."""
        return (self.head // self.length - 1 - indices // self.lanes) // self.blocks

    def segments(self) -> dict[str, Arrays]:
        """What is stored, in pieces: those of the rows, and the states."""
        stamp = np.array(self.head, np.int64)
        return {**self._ring.segments(), "states": {"stamp": stamp, **self._states}}

    def load(self, head: int, pieces: Mapping[str, Arrays]) -> None:
        """The inverse of ``segments``."""
        self._ring.load(head, pieces)
        for name, array in self._states.items():
            if pieces["states"][name].shape != array.shape:
                raise CheckpointError(f"the saved replay does not fit: state {name!r} was of another size")
            array[...] = pieces["states"][name]


class SequenceReplay(Memory[Sequences]):
    """Sequences of the last rows of some lanes, drawn whole."""

    def __init__(
        self,
        env: EnvSpec,
        lanes: int,
        rows: int,
        *,
        length: int,
        lead: int,
        tail: int,
        state: Sequence[Field],
        alpha: float = 0.0,
    ) -> None:
        super().__init__(SequenceRing(env, lanes, rows, length=length, lead=lead, tail=tail, state=state), alpha)


SequenceBatch = Drawn[Sequences]
"""Drawn sequences, where they lie, and their importance weights."""
