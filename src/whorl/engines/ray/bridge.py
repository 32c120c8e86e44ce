"""Endpoints whose two ends live in different stations: what they have in common.

Each station has the endpoint's local form in its own shared memory, and takes the part of whoever is elsewhere: it
reads what a local writer hands over and sends it on, or writes what comes. A slot of a writer is given back when the
far reader has given back its copy, so that a channel holds as many items as its plan says and no more; what has been
sent on outlives the writer, its station and its machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import ray

from whorl.engines.contract import RoleId
from whorl.engines.local.status import PAGE_BYTES, StatusClock
from whorl.engines.ray.stream import Stream
from whorl.types import Array

PUT_FROM_BYTES = 100 * 1024
"""Larger arrays for several receivers are put into the object store, once."""


class Surroundings(Protocol):
    """What a bridge needs of its station."""

    def stream_to(self, unit: int) -> Stream:
        """What is put before the other station is known waits for it."""
        ...

    def counted(self, role: RoleId) -> tuple[int, int]:
        """Incarnation and environment steps of a role of this station."""
        ...

    def watch(self, descriptor: int, on_readable: Callable[[], None]) -> None: ...


class Bridge(Protocol):
    """What a station asks of every bridge."""

    def on_peer(self, unit: int) -> None:
        """The station of another unit was replaced."""
        ...

    def close(self) -> None: ...


def for_several(array: Array, receivers: int) -> Any:
    """An array as it is sent to several receivers: itself, or a reference to it in the object store."""
    return [ray.put(array)] if receivers > 1 and array.nbytes >= PUT_FROM_BYTES else array


def no_clock() -> StatusClock:
    """A clock that nobody reads."""
    return StatusClock(memoryview(bytearray(PAGE_BYTES)))
