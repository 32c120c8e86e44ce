"""A channel between processes: slots in shared memory, tickets by a socket.

Each slot has a state word (FREE -> WRITING -> FILLED -> CLAIMED -> FREE), which is the truth about who may touch it. A
message on a SEQPACKET socket is the ticket to a filled slot: the kernel gives each ticket to exactly one reader, in
order, and wakes it. Messages the other way only wake the writer, and are sent only when its word says that it waits.

Any process may be killed between any two lines here. The supervisor keeps every descriptor, so filled slots outlive
their writer; the next incarnation mends what was left half done:

- a writer frees the slot left in WRITING, and sends the ticket of a slot marked FILLED whose ticket was never sent (a
  word remembers the last one sent; tickets carry a sequence number, so a second copy is ignored);
- a reader gives the slots it had claimed back to the writer, and also one whose ticket it took and did not mark yet.
"""

from __future__ import annotations

import fcntl
import socket
import struct
from collections import deque
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import numpy as np

from whorl.engines import waits
from whorl.engines.contract import Endpoint, RoleId, Wait
from whorl.engines.local.memory import fence, map_segment, padded, words_of
from whorl.engines.local.polling import FdEndpoint
from whorl.engines.local.status import StatusClock
from whorl.types import Array, Arrays, Layout

MAX_SLOTS = 128  # so many tickets always fit in a socket's buffer
FREE, WRITING, FILLED, CLAIMED = 0, 1, 2, 3  # CLAIMED + reader's rank: who has it
_TICKET = struct.Struct("=2q")
_SENT, _WAITS, _STATES = 0, 1, 2


def segment_bytes(layout: Layout, slots: int) -> int:
    """The size of a channel's segment."""
    return padded(8 * (_STATES + 2 * slots)) + slots * padded(layout.size_bytes)


class _Slots:
    """The segment as words and arrays."""

    def __init__(self, descriptor: int, layout: Layout, slots: int) -> None:
        view = map_segment(descriptor)
        self.words = words_of(view, _STATES + 2 * slots)
        self.count = slots
        data = np.frombuffer(view, dtype=np.uint8, offset=padded(8 * (_STATES + 2 * slots)))
        stride = padded(layout.size_bytes)
        self.raw = [data[slot * stride : slot * stride + layout.size_bytes] for slot in range(slots)]
        self.arrays: list[Arrays] = [layout.views(raw) for raw in self.raw]

    @property
    def filled(self) -> int:
        return sum(state >= FILLED for state in self.words[_STATES : _STATES + self.count])

    def sequence(self, slot: int) -> int:
        """The number of the last hand-over through this slot."""
        return self.words[_STATES + self.count + slot]

    @property
    def handed_over(self) -> int:
        """The number of the last hand-over of all, whether its ticket was sent or not."""
        done = (slot for slot in range(self.count) if self.words[_STATES + slot] != WRITING)
        return max(self.words[_SENT], *(self.sequence(slot) for slot in done), 0)


class LocalChannel:
    """What writer and reader have in common; each half refuses the other's calls."""

    def __init__(self, name: str, layout: Layout, slots: int, segment: int) -> None:
        self.name = name
        self.layout = layout
        self._slots = _Slots(segment, layout, slots)

    def reserve(self) -> Generator[Wait, None, Arrays]:
        raise RuntimeError(f"this role reads {self.name} and cannot write it")

    def commit(self) -> None:
        raise RuntimeError(f"this role reads {self.name} and cannot write it")

    def try_claim(self) -> Arrays | None:
        raise RuntimeError(f"this role writes {self.name} and cannot read it")

    def claim(self) -> Generator[Wait, None, Arrays]:
        raise RuntimeError(f"this role writes {self.name} and cannot read it")

    def release(self, place: int = 0) -> None:
        del place
        raise RuntimeError(f"this role writes {self.name} and cannot read it")

    @property
    def readable(self) -> Endpoint:
        raise RuntimeError(f"this role writes {self.name} and cannot read it")

    @property
    def writable(self) -> Endpoint:
        raise RuntimeError(f"this role reads {self.name} and cannot write it")

    @property
    def filled(self) -> int:
        return self._slots.filled

    @property
    def handed_over(self) -> int:
        return self._slots.handed_over

    def begin_at(self, handed_over: int) -> None:
        """In a fresh channel: so often something was handed over in its predecessor."""
        self._slots.words[_SENT] = handed_over


class ChannelWriter(LocalChannel):
    """The writer's end."""

    def __init__(
        self,
        name: str,
        layout: Layout,
        slots: int,
        segment: int,
        tickets: socket.socket,
        readers: tuple[RoleId, ...],
        clock: StatusClock,
    ) -> None:
        super().__init__(name, layout, slots, segment)
        self._tickets = tickets
        self._clock = clock
        self._size_bytes = layout.size_bytes
        self._reserved: int | None = None
        self._next = 0
        self._writable = FdEndpoint(tickets.fileno(), self._can_write)
        self._until_free = waits.free_slot(self._writable, name, readers)
        self._mend()

    def _mend(self) -> None:
        """Finish or undo what a lost incarnation left half done; nothing to do in a fresh channel."""
        words, count = self._slots.words, self._slots.count
        for slot in range(count):
            if words[_STATES + slot] == WRITING:
                if self._slots.sequence(slot) > words[_SENT]:  # it died on the way to hand it over
                    words[_STATES + count + slot] = 0
                words[_STATES + slot] = FREE
        self._sequence = self._slots.handed_over
        for slot in range(count):
            if words[_STATES + slot] == FILLED and self._slots.sequence(slot) > words[_SENT]:
                self._send_ticket(slot, self._slots.sequence(slot))

    def _send_ticket(self, slot: int, sequence: int) -> None:
        self._tickets.send(_TICKET.pack(slot, sequence))
        self._slots.words[_SENT] = sequence

    def _free_slot(self) -> int | None:
        words, count = self._slots.words, self._slots.count
        for offset in range(count):
            slot = (self._next + offset) % count
            if words[_STATES + slot] == FREE:
                return slot
        return None

    def _can_write(self) -> bool:
        if self._reserved is not None or self._free_slot() is not None:
            return True
        _drain(self._tickets)
        self._slots.words[_WAITS] = 1
        fence()  # before the second look, so that no wake-up is lost between
        return self._free_slot() is not None

    def reserve(self) -> Generator[Wait, None, Arrays]:
        if self._reserved is None:
            while not self._can_write():
                yield self._until_free
            slot = self._free_slot()
            assert slot is not None, "only the writer takes free slots"
            self._slots.words[_STATES + slot] = WRITING
            self._slots.words[_WAITS] = 0
            self._reserved = slot
            self._next = (slot + 1) % self._slots.count
        return self._slots.arrays[self._reserved]

    def commit(self) -> None:
        slot = self._reserved
        if slot is None:
            raise RuntimeError(f"nothing of {self.name} is reserved, so nothing can be committed")
        self._sequence += 1
        words = self._slots.words
        words[_STATES + self._slots.count + slot] = self._sequence
        words[_STATES + slot] = FILLED
        self._send_ticket(slot, self._sequence)
        self._reserved = None
        self._clock.count_sent(self._size_bytes)

    def put(self, raw: Array) -> None:
        """Hand over a copy of a whole slot's bytes; there must be room."""
        for _ in self.reserve():
            raise RuntimeError(f"there is no room in {self.name}")
        assert self._reserved is not None
        np.copyto(self._slots.raw[self._reserved], raw)
        self.commit()

    def ask_to_be_woken(self) -> None:
        """By the next release, whoever is to write then. Drains the wake-ups before."""
        _drain(self._tickets)
        self._slots.words[_WAITS] = 1
        fence()  # before the caller looks again, so that no wake-up is lost between

    @property
    def writable(self) -> Endpoint:
        return self._writable


class ChannelReader(LocalChannel):
    """A reader's end. ``rank`` tells the readers of a channel apart."""

    def __init__(
        self,
        name: str,
        layout: Layout,
        slots: int,
        segment: int,
        tickets: socket.socket,
        writer: RoleId,
        rank: int,
        alone: bool,
        incarnation: int,
    ) -> None:
        super().__init__(name, layout, slots, segment)
        self._tickets = tickets
        self._mark = CLAIMED + rank
        self._alone = alone
        self._segment = segment
        self._backlog: deque[tuple[int, int]] = deque()
        self._claimed: deque[int] = deque()
        self._states = self._slots.words[_STATES : _STATES + slots]
        self._readable = FdEndpoint(tickets.fileno(), self._can_read, self._is_worth_asking if alone else None)
        self._until_filled = waits.filled_slot(self._readable, name, writer)
        if incarnation > 0:
            self._mend()

    def _exclusive(self) -> AbstractContextManager[None]:
        """Readers that share a channel take tickets one at a time. The kernel drops a dead reader's lock."""
        return nullcontext() if self._alone else _locked(self._segment)

    def _mend(self) -> None:
        """Give back what a lost incarnation had taken."""
        words, count = self._slots.words, self._slots.count
        with self._exclusive():
            sent = words[_SENT]
            taken = {slot for slot in range(count) if words[_STATES + slot] == self._mark}
            taken |= {slot for slot in range(count) if self._is_filled(slot) and self._slots.sequence(slot) <= sent}
            while (ticket := self._receive_ticket()) is not None:
                self._backlog.append(ticket)
                taken.discard(ticket[0])
                if not self._alone:  # so that another reader's mending leaves it to this one
                    words[_STATES + ticket[0]] = self._mark
            for slot in taken:
                words[_STATES + slot] = FREE
        self._wake_writer()

    def _is_filled(self, slot: int) -> bool:
        return self._slots.words[_STATES + slot] == FILLED

    def _receive_ticket(self) -> tuple[int, int] | None:
        """The next ticket from the socket that is still good."""
        while True:
            try:
                data = self._tickets.recv(_TICKET.size)
            except BlockingIOError:
                return None
            if len(data) < _TICKET.size:
                return None
            slot, sequence = _TICKET.unpack(data)
            if self._is_filled(slot) and self._slots.sequence(slot) == sequence:
                return slot, sequence

    def _next_ticket(self) -> tuple[int, int] | None:
        """The next good ticket; of two copies in the backlog the first makes the second worthless."""
        while self._backlog:
            slot, sequence = self._backlog.popleft()
            mine = self._slots.words[_STATES + slot] == (FILLED if self._alone else self._mark)
            if mine and slot not in self._claimed and self._slots.sequence(slot) == sequence:
                return slot, sequence
        return self._receive_ticket()

    def _is_worth_asking(self) -> bool:
        """Slots are marked before their tickets are sent: while none is, there is none in the socket that is good."""
        return bool(self._backlog) or FILLED in self._states

    def _can_read(self) -> bool:
        if self._backlog:
            return True
        if not self._alone:  # a ticket taken here would be kept from the others
            return self._readable.poll_now()
        ticket = self._receive_ticket()
        if ticket is not None:
            self._backlog.append(ticket)
        return ticket is not None

    def try_claim(self) -> Arrays | None:
        if self._alone and not self._is_worth_asking():
            return None
        with self._exclusive():
            ticket = self._next_ticket()
            if ticket is None:
                return None
            slot = ticket[0]
            self._slots.words[_STATES + slot] = self._mark
        self._claimed.append(slot)
        return self._slots.arrays[slot]

    def claim(self) -> Generator[Wait, None, Arrays]:
        while (arrays := self.try_claim()) is None:
            yield self._until_filled
        return arrays

    @property
    def claimed(self) -> list[Array]:
        """The bytes of the slots that are claimed, the oldest first."""
        return [self._slots.raw[slot] for slot in self._claimed]

    def release(self, place: int = 0) -> None:
        if not self._claimed:
            raise RuntimeError(f"nothing of {self.name} is claimed, so nothing can be released")
        slot = self._claimed[place]
        del self._claimed[place]
        self._slots.words[_STATES + slot] = FREE
        self._wake_writer()

    def _wake_writer(self) -> None:
        fence()  # the slot is free before the writer's word is read
        if not self._slots.words[_WAITS]:
            return
        try:
            self._tickets.send(b"\0")
        except BlockingIOError:
            return  # the writer has wake-ups enough waiting for it

    @property
    def readable(self) -> Endpoint:
        return self._readable


@contextmanager
def _locked(descriptor: int) -> Generator[None, None, None]:
    fcntl.lockf(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.lockf(descriptor, fcntl.LOCK_UN)


def _drain(wakeups: socket.socket) -> None:
    while True:
        try:
            if not wakeups.recv(1):
                return
        except BlockingIOError:
            return
