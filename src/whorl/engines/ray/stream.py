"""An ordered stream to one station: what is put comes once and in order, whatever a bad link does meanwhile.

One call is under way at a time; what comes in the meantime travels together in the next. A call that fails because its
receiver cannot be reached is made again with the same number, and the receiver does nothing about a number it has seen.
A receiver that is dead for good ends the stream; the supervisor brings another.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from ray.exceptions import RayError

from whorl.engines.ray.private import lost_for_good
from whorl.engines.wire import encode_body

CALL_S = 30.0
RETRY_S = 0.2

Call = Callable[[int, bytes, list[Any]], Awaitable[Any]]
Parcel = tuple[dict[str, Any], list[Any]]
"""A header of plain values, and arrays or references to arrays."""


class Stream:
    """To one incarnation of one receiver."""

    def __init__(self, call: Call | None = None) -> None:
        """``call(number, headers, arrays)`` makes the remote call. Without one, what is put waits for ``connect``."""
        self._call = call
        self._queue: deque[tuple[Parcel, asyncio.Future[None] | None]] = deque()
        self._number = 0
        self._pumping: asyncio.Task[None] | None = None
        self.dead = False

    def connect(self, call: Call) -> None:
        """The receiver is known now."""
        self._call = call
        self._go_on()

    def put(self, header: dict[str, Any], arrays: list[Any] | None = None) -> None:
        """Send, sometime soon."""
        self._add((header, arrays or []), None)

    async def send(self, header: dict[str, Any], arrays: list[Any] | None = None) -> None:
        """Send, and wait until it is there (or the stream dead)."""
        if not self.dead:
            there: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._add((header, arrays or []), there)
            await there

    async def flush(self, timeout_s: float) -> None:
        """Until everything is there, the stream dead, or the time over."""
        if self._pumping is not None and not self._pumping.done():
            await asyncio.wait([self._pumping], timeout=timeout_s)

    def _add(self, parcel: Parcel, there: asyncio.Future[None] | None) -> None:
        if self.dead:
            return
        self._queue.append((parcel, there))
        self._go_on()

    def _go_on(self) -> None:
        if self._queue and self._call is not None and (self._pumping is None or self._pumping.done()):
            self._pumping = asyncio.get_running_loop().create_task(self._pump())

    async def _pump(self) -> None:
        while self._queue and not self.dead:
            batch = list(self._queue)
            self._queue.clear()
            self._number += 1
            headers = encode_body({"batch": [{**header, "arrays": len(arrays)} for (header, arrays), _ in batch]})
            arrays = [array for (_, arrays), _ in batch for array in arrays]
            await self._insist(headers, arrays)
            for _, there in batch:
                if there is not None and not there.done():
                    there.set_result(None)
        if self.dead:
            self.end()

    async def _insist(self, headers: bytes, arrays: list[Any]) -> None:
        assert self._call is not None
        while not self.dead:
            try:
                await asyncio.wait_for(_as_future(self._call(self._number, headers, arrays)), CALL_S)
                return
            except lost_for_good():
                self.dead = True
            except (RayError, TimeoutError):  # unreachable just now
                await asyncio.sleep(RETRY_S)

    def end(self) -> None:
        """Nothing more will be sent; nobody waits for it."""
        self.dead = True
        while self._queue:
            _, there = self._queue.popleft()
            if there is not None and not there.done():
                there.set_result(None)


def _as_future(awaitable: Awaitable[Any]) -> asyncio.Future[Any]:
    return asyncio.ensure_future(awaitable)


class Arrivals:
    """The receiving side: which numbers were seen, by sender."""

    def __init__(self) -> None:
        self._last: dict[tuple[int, int], int] = {}
        self._buried: dict[int, int] = {}

    def bury(self, sender: int, generation: int) -> None:
        """A sender was declared lost, and its accounts closed: what still comes of it comes too late."""
        self._buried[sender] = max(generation, self._buried.get(sender, -1))

    def is_new(self, sender: int, generation: int, number: int) -> bool:
        """Whether this batch is to be heeded: not seen before, and of the sender's newest generation."""
        newest = max((known for who, known in self._last if who == sender), default=generation)
        if generation < newest or generation <= self._buried.get(sender, -1):
            return False
        if number <= self._last.get((sender, generation), 0):
            return False
        self._last[sender, generation] = number
        return True
