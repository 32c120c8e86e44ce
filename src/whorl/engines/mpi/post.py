"""Frames between ranks. Rank 0 also passes on what the driver and the other ranks have to say to each other.

Nothing here blocks: what MPI has not taken or brought yet is looked at again when the rank comes by. Only for what the
driver says to other ranks a moment is taken: the role of this one may be long in coming by.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from mpi4py import MPI

from whorl.engines.contract import SUPERVISOR, RoleId
from whorl.engines.local.line import FrameSocket
from whorl.engines.mpi.orders import EVERYBODY
from whorl.engines.mpi.requests import PeerLost, acknowledge, done, over, send
from whorl.engines.wire import Envelope, FrameReader, decode_body, encode_body, encode_frame, envelope

_TAG = 0
_SEE_OFF_S, _LOOK_EVERY_S = 0.05, 50e-6


class Post:
    """A rank's letter box. ``places`` says at which rank a role is; ``driver`` is rank 0's socket."""

    def __init__(self, comm: MPI.Intracomm, driver: FrameSocket | None) -> None:
        self._comm = comm
        self._driver = driver
        self._sending: deque[tuple[MPI.Request, bytes]] = deque()
        self._arriving: deque[tuple[MPI.Request, bytearray]] = deque()
        self.places: dict[RoleId, int] = {}
        self.inbox: deque[tuple[Envelope, bytes]] = deque()
        self.control: deque[tuple[Envelope, bytes]] = deque()
        self.bytes_sent = 0

    @property
    def driver_is_gone(self) -> bool:
        return self._driver is not None and self._driver.hung_up

    def send(self, head: Envelope, body: bytes) -> int:
        """To a role, the supervisor or everybody; returns the size of the frame."""
        frame = encode_frame(head, body)
        self._route(head, body, frame)
        return len(frame)

    def send_control(self, kind: str, body: Mapping[str, Any] | None, sender: RoleId = EVERYBODY) -> None:
        """A frame for the driver's loop, which no observer sees."""
        self.send(envelope(sender, SUPERVISOR, kind, control=True), encode_body(body))

    def take_control(self, kind: str) -> list[dict[str, Any]]:
        """The orders of a kind that does not wait for its turn."""
        found = [decode_body(body) for head, body in self.control if head.kind == kind]
        if found:
            self.control = deque(order for order in self.control if order[0].kind != kind)
        return found

    def _route(self, head: Envelope, body: bytes, frame: bytes) -> None:
        to = head.to_id
        if to == SUPERVISOR:
            if self._driver is not None:
                self._driver.send(frame)
            else:
                self._send_to(0, frame)
        elif to == EVERYBODY:
            for rank in range(self._comm.size):
                if rank != self._comm.rank:
                    self._send_to(rank, frame)
            self._keep(head, body)
        else:
            rank = self.places.get(to, -1)
            if rank == self._comm.rank:
                self._keep(head, body)
            elif rank >= 0:
                self._send_to(rank, frame)

    def _keep(self, head: Envelope, body: bytes) -> None:
        (self.control if head.control else self.inbox).append((head, body))

    def _send_to(self, rank: int, frame: bytes) -> None:
        self._sending.append((send(self._comm, [frame, MPI.BYTE], rank, _TAG), frame))

    def pump(self) -> None:
        """Take in what has come, pass on what is for others."""
        self._forget_sent()
        while (found := self._probe(status := MPI.Status())) is not None:
            buffer = bytearray(status.Get_count(MPI.BYTE))
            self._arriving.append((found.Irecv([buffer, MPI.BYTE]), buffer))
        while self._arriving:
            try:
                if not done(self._arriving[0][0]):
                    break
            except PeerLost:
                self._arriving.popleft()
            else:
                self._take(bytes(self._arriving.popleft()[1]))
        if self._driver is not None:
            self._driver.flush()
            if said := self._driver.receive():
                for head, body in said:
                    self._route(head, body, encode_frame(head, body))
                self._see_off()

    def _see_off(self) -> None:
        """MPI takes so many messages at a time (MPICH 64 among the ranks of a node), and moves none while the role of
        this rank is busy."""
        end = time.monotonic() + _SEE_OFF_S
        while self._forget_sent() and time.monotonic() < end:
            time.sleep(_LOOK_EVERY_S)

    def _forget_sent(self) -> bool:
        """True while something is still on its way."""
        while self._sending and over(self._sending[0][0]):
            self._sending.popleft()
        return bool(self._sending)

    def _probe(self, status: MPI.Status) -> MPI.Message | None:
        try:
            return self._comm.Improbe(MPI.ANY_SOURCE, _TAG, status)
        except MPI.Exception as error:
            acknowledge(self._comm, error)
            return None

    def _take(self, frame: bytes) -> None:
        for head, body in FrameReader().feed(frame):
            if head.to_id == SUPERVISOR and self._driver is not None:
                self._driver.send(frame)
            else:
                self._keep(head, body)

    @property
    def unsent(self) -> bool:
        """Something is still on its way out."""
        return bool(self._sending) or (self._driver is not None and self._driver.outgoing_bytes > 0)
