"""Channels, boards, groups and lines as plain objects of one thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any

import numpy as np

from whorl.engines import waits
from whorl.engines.contract import (
    SUPERVISOR,
    BoardSpec,
    ChannelSpec,
    Endpoint,
    GroupSpec,
    Message,
    Plan,
    RoleId,
    Wait,
)
from whorl.engines.inline.clock import InlineClock
from whorl.engines.summing import OrderedSum
from whorl.engines.wire import plain_copy
from whorl.types import Array, Arrays


def needed_bytes(plan: Plan) -> int:
    """The memory of a plan's endpoints."""
    return (
        sum(spec.layout.size_bytes * spec.slots for spec in plan.channels)
        + sum(spec.layout.size_bytes * 2 for spec in plan.boards)
        + sum(spec.layout.size_bytes * spec.buffers * len(spec.members) for spec in plan.groups)
    )


class When:
    """An endpoint that is ready when a function says so."""

    __slots__ = ("ready",)

    def __init__(self, ready: Callable[[], bool]) -> None:
        self.ready = ready


class ChannelSlots:
    """What a channel's writer and readers share."""

    def __init__(self, spec: ChannelSpec) -> None:
        self.spec = spec
        self.free = deque(spec.layout.views(spec.layout.allocate()) for _ in range(spec.slots))
        self.filled: deque[Arrays] = deque()
        self.unreleased = 0
        self.handed_over = 0


class InlineChannel:
    """One role's end of a channel. A reader gets the very arrays the writer filled."""

    def __init__(self, slots: ChannelSlots, clock: InlineClock) -> None:
        self.layout = slots.spec.layout
        self._slots = slots
        self._clock = clock
        self._reserved: Arrays | None = None
        self._claimed: deque[Arrays] = deque()
        self._size_bytes = self.layout.size_bytes
        self._readable = When(lambda: bool(slots.filled))
        self._writable = When(lambda: self._reserved is not None or bool(slots.free))
        self._until_filled = waits.filled_slot(self._readable, slots.spec.name, slots.spec.writer)
        self._until_free = waits.free_slot(self._writable, slots.spec.name, slots.spec.readers)

    def reserve(self) -> Generator[Wait, None, Arrays]:
        if self._reserved is None:
            while not self._slots.free:
                yield self._until_free
            self._reserved = self._slots.free.popleft()
        return self._reserved

    def commit(self) -> None:
        if self._reserved is None:
            raise RuntimeError(f"nothing of {self._slots.spec.name} is reserved, so nothing can be committed")
        self._slots.filled.append(self._reserved)
        self._slots.unreleased += 1
        self._slots.handed_over += 1
        self._reserved = None
        self._clock.bytes_sent += self._size_bytes

    def try_claim(self) -> Arrays | None:
        if not self._slots.filled:
            return None
        self._claimed.append(self._slots.filled.popleft())
        return self._claimed[-1]

    def claim(self) -> Generator[Wait, None, Arrays]:
        while (arrays := self.try_claim()) is None:
            yield self._until_filled
        return arrays

    def release(self, place: int = 0) -> None:
        if not self._claimed:
            raise RuntimeError(f"nothing of {self._slots.spec.name} is claimed, so nothing can be released")
        self._slots.free.append(self._claimed[place])
        del self._claimed[place]
        self._slots.unreleased -= 1

    @property
    def readable(self) -> Endpoint:
        return self._readable

    @property
    def writable(self) -> Endpoint:
        return self._writable

    @property
    def filled(self) -> int:
        return self._slots.unreleased

    @property
    def handed_over(self) -> int:
        return self._slots.handed_over


class BoardValues:
    """The newest value and the one before."""

    def __init__(self, spec: BoardSpec) -> None:
        self.spec = spec
        self.buffers = [spec.layout.allocate(), spec.layout.allocate()]
        self.versions = [-1, -1]
        self.newest = 0


class InlineBoard:
    """One role's end of a board."""

    def __init__(self, values: BoardValues, clock: InlineClock) -> None:
        self.layout = values.spec.layout
        self._values = values
        self._clock = clock
        self._last_read = -1
        self._target = 0
        self._changed = When(lambda: self.version > self._last_read)
        self._reached = When(lambda: self.version >= self._target)

    @property
    def version(self) -> int:
        return self._values.versions[self._values.newest]

    def publish(self, version: int, buffer: Array) -> None:
        if version <= self.version:
            raise ValueError(f"{self._values.spec.name} is at version {self.version}; {version} is not newer")
        slot = 1 - self._values.newest
        np.copyto(self._values.buffers[slot], buffer.reshape(-1).view(np.uint8))
        self._values.versions[slot] = version
        self._values.newest = slot
        self._clock.bytes_sent += self.layout.size_bytes

    def read(self, buffer: Array, version: int | None = None) -> int:
        wanted = self.version if version is None else version
        if wanted < 0 or wanted not in self._values.versions:
            raise LookupError(f"{self._values.spec.name} has no version {wanted}; the newest is {self.version}")
        target = buffer.reshape(-1).view(np.uint8)
        np.copyto(target, self._values.buffers[self._values.versions.index(wanted)][: len(target)])
        self._last_read = max(self._last_read, wanted)
        return wanted

    def wait_for(self, version: int) -> Generator[Wait, None, None]:
        self._target = version
        while self.version < version:
            yield waits.new_version(self._reached, self._values.spec.name, version, self._values.spec.writer)

    @property
    def changed(self) -> Endpoint:
        return self._changed


class Meeting:
    """What the members of a group share. The last to arrive does the work of a round."""

    def __init__(self, spec: GroupSpec) -> None:
        self.spec = spec
        self.adder = OrderedSum(spec.layout)
        self.arrived: dict[int, Any] = {}
        self.rounds_done = 0
        self.result: Any = None


class InlineGroup:
    """One member's end of a group."""

    def __init__(self, meeting: Meeting, rank: int, clock: InlineClock) -> None:
        self.rank = rank
        self.size = len(meeting.spec.members)
        self._meeting = meeting
        self._clock = clock
        self._round = 0
        self._alone: Array | None = None
        self._complete = When(lambda: meeting.rounds_done >= self._round)

    def sum(self, buffers: Sequence[Array]) -> Generator[Wait, None, Array]:
        self.bring(buffers)
        return (yield from self.total())

    def bring(self, buffers: Sequence[Array]) -> None:
        spec, adder = self._meeting.spec, self._meeting.adder
        if len(buffers) != spec.buffers:
            raise ValueError(f"{spec.name} takes {spec.buffers} buffers of each member, got {len(buffers)}")
        if self.size == len(buffers) == 1:
            self._alone = adder.raw(buffers[0])  # the sum of one is itself
            return
        self._clock.bytes_sent += spec.layout.size_bytes * spec.buffers * (self.size > 1)

        def add(arrived: dict[int, Any]) -> Array:
            return adder.total([row for rank in range(self.size) for row in arrived[rank]])

        self._arrive([adder.runs(buffer) for buffer in buffers], add)

    def total(self) -> Generator[Wait, None, Array]:
        if self._alone is not None:
            alone, self._alone = self._alone, None
            return alone
        total: Array = yield from self._await_all()
        return total.copy() if self.size > 1 else total  # each member may change its own

    def broadcast(self, value: int) -> Generator[Wait, None, int]:
        result: int = yield from self._meet(value, lambda arrived: arrived[0])
        return result

    def union(self, flags: int) -> Generator[Wait, None, int]:
        result: int = yield from self._meet(flags, lambda arrived: reduce(or_, arrived.values()))
        return result

    def barrier(self) -> Generator[Wait, None, None]:
        yield from self._meet(None, lambda _: None)

    def _meet(self, brought: Any, work: Callable[[dict[int, Any]], Any]) -> Generator[Wait, None, Any]:
        self._arrive(brought, work)
        return (yield from self._await_all())

    def _arrive(self, brought: Any, work: Callable[[dict[int, Any]], Any]) -> None:
        """Who comes last does the work."""
        meeting = self._meeting
        self._round += 1
        meeting.arrived[self.rank] = brought
        if len(meeting.arrived) == self.size:
            meeting.result = work(meeting.arrived)
            meeting.arrived = {}
            meeting.rounds_done = self._round

    def _await_all(self) -> Generator[Wait, None, Any]:
        meeting = self._meeting
        while meeting.rounds_done < self._round:
            missing = (who for rank, who in enumerate(meeting.spec.members) if rank not in meeting.arrived)
            yield waits.all_members(self._complete, meeting.spec.name, tuple(missing))
        return meeting.result


class InlineLine:
    """One role's line. ``post`` carries a message to whom it is for."""

    def __init__(self, owner: RoleId, post: Callable[[RoleId, Message], None]) -> None:
        self.inbox: deque[Message] = deque()
        self._owner = owner
        self._post = post
        self._readable = When(lambda: bool(self.inbox))

    def send(self, kind: str, body: Mapping[str, Any] | None = None, to: RoleId = SUPERVISOR) -> None:
        self._post(to, Message(self._owner, kind, plain_copy(body or {})))

    def try_receive(self) -> Message | None:
        return self.inbox.popleft() if self.inbox else None

    def expect(self, kind: str) -> Generator[Wait, None, Message]:
        return waits.expect_message(self, self._owner, kind)

    @property
    def readable(self) -> Endpoint:
        return self._readable
