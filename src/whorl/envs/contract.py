"""What an actor needs of its environments, whatever their form: scalar copies, a vector form, own processes.

A *lane* is one environment index of the whole run; an actor holds a contiguous range of them. Every lane is a
stream of *rows*, and every Gymnasium autoreset mode becomes this one form:

    row t     observation, valid=True    the action taken, then its reward, terminated, truncated
    ...
    row e     valid=True                 the step that ended the episode (terminated or truncated)
    row e+1   valid=False                the episode's final observation; the action is ignored, the lane resets
    row e+2   valid=True, first=True     the first observation of the next episode

A step that raises is a *fault*: the row it was taken from becomes the not-valid row (its observation is the last
one known), the environment is rebuilt, and the next row is the first of a new episode. A fault is never a terminal.
A reset that raises is tried again with another seed; it costs neither a row nor an episode number. Values that the
spaces forbid (nan, a wrong shape) are not faults: ``receive`` raises ``EnvironmentFault``, and the run ends.

An environment that can save its state offers two methods on the unwrapped object, ``get_state() -> bytes`` and
``set_state(state: bytes) -> None``; a lane is then brought back by them instead of by stepping its actions again.

    rows = lanes.start(states)
    while True:
        ...act on rows.observation...
        lanes.send(actions)
        yield from lanes.arrival()      # waits only where environments live in other processes
        outcome = lanes.receive()       # fills rows in place and says what the actions led to
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from whorl.types import Array, Arrays, EnvSpec


@dataclass
class Rows:
    """The current row of each lane. Arrays are owned by the lanes and overwritten by ``receive``."""

    observation: Arrays
    """Leaf name to [lanes, *leaf.shape]."""
    valid: Array
    """[lanes] bool; False on a final-observation row."""
    first: Array
    """[lanes] bool; True on the first row of an episode."""


@dataclass
class Outcome:
    """What the actions sent led to, for the rows they were taken from."""

    reward: Array
    """[lanes] float32; 0 on rows that were not valid."""
    terminated: Array
    """[lanes] bool."""
    truncated: Array
    """[lanes] bool."""
    fault: Array
    """[lanes] bool: the step raised or the process died; the row it was taken from is no longer valid."""
    metrics: Array
    """[lanes, metrics] float64: what the environment told of an episode that ended, NaN elsewhere."""


@dataclass
class LaneState:
    """Where one lane stands, as the ledger knows it: enough to rebuild the environment exactly.

    ``actions`` are those of the current episode since its reset. ``ended`` means that the current row is a
    final-observation row. ``observation`` is that of the current row, to verify the rebuilt one against.
    """

    lane: int
    episode: int = 0
    """Number of the current episode in this lane; with the seed and the lane it gives the reset seed."""
    actions: Array = field(default_factory=lambda: np.zeros(0, np.float32))
    """[steps since reset, *action.shape]."""
    ended: bool = False
    observation: Arrays | None = None
    """None for a lane that has not started: a plain reset."""
    snapshot: bytes | None = None
    """The environment's own saved state, where it offers one."""
    skip: int = 0
    """Quarantined when above 0: do not step these actions again, begin the episode so many later instead."""


class LaneEnvs(Protocol):
    """A contiguous range of environments stepped together."""

    spec: EnvSpec
    lanes: range

    @property
    def exact(self) -> bool:
        """False once a lane could not be rebuilt as it was (its episode was given up and counted)."""
        ...

    @property
    def episodes(self) -> Sequence[int]:
        """Number of each lane's current episode. It grows by one with every ``first`` row; after ``start`` it is
        greater than the ledger's where an episode was given up."""
        ...

    @property
    def fault_count(self) -> int:
        """Faults of all lanes so far."""
        ...

    @property
    def faults(self) -> Sequence[str]:
        """The latest faults, one line each, for the log; bounded."""
        ...

    def start(self, states: Sequence[LaneState]) -> Generator[Any, None, Rows]:
        """Make, reset or rebuild every lane; returns the rows, which later calls overwrite in place."""
        ...

    def send(self, actions: Array) -> None:
        """Step every lane with ``actions`` [lanes, *action.shape]; lanes on a not-valid row reset instead."""
        ...

    def arrival(self) -> Generator[Any, None, None]:
        """Yields waits until every lane has answered. Yields nothing where lanes live in this process."""
        ...

    def receive(self) -> Outcome:
        """What the actions led to. Overwrites the rows given by ``start``; the outcome is overwritten next time."""
        ...

    def snapshots(self) -> list[bytes] | None:
        """Each lane's saved state where the environment offers one, else None."""
        ...

    def close(self) -> None:
        """Close every environment; never raises, never hangs."""
        ...
