"""A channel by messages, with credits: for two-sided workflows, and between nodes.

The reader keeps a receive posted for each free slot, so that whatever is sent has a place to go; the writer sends no
more than the reader has slots, because each slot given back comes as a credit (the number given back so far).
"""

from __future__ import annotations

import contextlib
from collections import deque

import numpy as np
from mpi4py import MPI

from whorl.engines.contract import RoleId
from whorl.engines.mpi.ends import ReaderEnd, WriterEnd
from whorl.engines.mpi.pages import RankClock
from whorl.engines.mpi.requests import PeerLost, cancel, done, over, receive, send
from whorl.types import Arrays, Layout


class MessageWriter(WriterEnd):
    """Sends slots of its own; ``tag`` is the channel's, and the next one its credits'."""

    def __init__(
        self,
        name: str,
        layout: Layout,
        slots: int,
        comm: MPI.Intracomm,
        reader: int,
        tag: int,
        readers: tuple[RoleId, ...],
        clock: RankClock,
    ) -> None:
        super().__init__(name, layout, readers)
        self._comm, self._peer, self._tag = comm, reader, tag
        self._clock = clock
        self._buffers = [layout.allocate() for _ in range(slots)]
        self._arrays = [layout.views(buffer) for buffer in self._buffers]
        self._requests: list[MPI.Request] = [MPI.REQUEST_NULL] * slots
        self._given_back = np.zeros(1, dtype=np.int64)
        self._released = 0
        self.handed_over = 0
        self._credit = comm.Irecv(self._given_back, reader, tag + 1)

    def tend(self) -> None:
        """Take in credits, and let sends go on."""
        with contextlib.suppress(PeerLost):
            while self._credit != MPI.REQUEST_NULL and done(self._credit):
                self._released = int(self._given_back[0])
                self._credit = receive(self._comm, self._given_back, self._peer, self._tag + 1)
        for request in self._requests:
            if request != MPI.REQUEST_NULL:
                over(request)

    @property
    def _slot(self) -> int:
        return self.handed_over % len(self._buffers)

    def _next_slot(self) -> Arrays | None:
        if self.filled >= len(self._buffers) or not over(self._requests[self._slot]):
            self.tend()
        if self.filled >= len(self._buffers) or not over(self._requests[self._slot]):
            return None
        return self._arrays[self._slot]

    def _hand_over(self) -> None:
        slot = self._slot
        self._requests[slot] = send(self._comm, self._buffers[slot], self._peer, self._tag)
        self.handed_over += 1
        self._clock.count_sent(self.layout.size_bytes)

    @property
    def filled(self) -> int:
        return self.handed_over - self._released

    def close(self) -> None:
        """Nothing is waited for any more."""
        cancel(self._credit)


class MessageReader(ReaderEnd):
    """Receives into slots of its own."""

    def __init__(
        self, name: str, layout: Layout, slots: int, comm: MPI.Intracomm, writer_rank: int, tag: int, writer: RoleId
    ) -> None:
        super().__init__(name, layout, writer)
        self._comm, self._peer, self._tag = comm, writer_rank, tag
        self._buffers = [layout.allocate() for _ in range(slots)]
        self._arrays = [layout.views(buffer) for buffer in self._buffers]
        self._posted: deque[tuple[int, MPI.Request]] = deque((slot, self._receive(slot)) for slot in range(slots))
        self._arrived: deque[int] = deque()
        self._credits: deque[tuple[MPI.Request, object]] = deque()
        self._released = 0
        self.handed_over = 0

    def _receive(self, slot: int) -> MPI.Request:
        return receive(self._comm, self._buffers[slot], self._peer, self._tag)

    def tend(self) -> None:
        """See what has come, in order."""
        try:
            while self._posted and done(self._posted[0][1]):
                self._arrived.append(self._posted.popleft()[0])
                self.handed_over += 1
        except PeerLost:
            self._posted.clear()  # what has come is still there to be read
        while self._credits and over(self._credits[0][0]):
            self._credits.popleft()

    def _can_read(self) -> bool:
        if not self._arrived:
            self.tend()
        return bool(self._arrived)

    def _next_filled(self) -> tuple[int, Arrays] | None:
        if not self._can_read():
            return None
        slot = self._arrived.popleft()
        return slot, self._arrays[slot]

    def _give_back(self, slot: int) -> None:
        with contextlib.suppress(PeerLost):
            self._posted.append((slot, self._receive(slot)))
        self._released += 1
        credit = np.array([self._released], dtype=np.int64)
        self._credits.append((send(self._comm, credit, self._peer, self._tag + 1), credit))

    @property
    def filled(self) -> int:
        self.tend()
        return len(self._arrived) + len(self._claimed)

    def close(self) -> None:
        """Nothing is waited for any more."""
        for _, request in self._posted:
            cancel(request)


class NoReader(ReaderEnd):
    """The end of a reader that cannot help: a channel that several may read, where windows cannot be had."""

    filled = 0
    handed_over = 0

    def _can_read(self) -> bool:
        return False

    def _next_filled(self) -> tuple[int, Arrays] | None:
        return None

    def tend(self) -> None:
        """Nothing comes."""

    def close(self) -> None:
        """Nothing is waited for."""
