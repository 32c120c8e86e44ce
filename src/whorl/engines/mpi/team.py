"""A team: a communicator of its members' own, and orders of the first member to the others."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator

import numpy as np
from mpi4py import MPI

from whorl.engines.contract import Endpoint, RoleId, Wait
from whorl.engines.inline.endpoints import When


class MpiTeam:
    """One member's end. ``orders`` is a duplicate of ``comm``, so that orders never meet the members' own messages."""

    def __init__(self, name: str, members: tuple[RoleId, ...], comm: MPI.Intracomm) -> None:
        self.name = name
        self.comm = comm
        self.rank, self.size = comm.rank, comm.size
        self._members = members
        self._orders = comm.Dup()
        self._order = np.zeros(1, dtype=np.int64)
        self._sent: deque[tuple[MPI.Request, object]] = deque()
        self._expected = MPI.REQUEST_NULL if self.rank == 0 else self._orders.Irecv(self._order, 0)
        self._taken: deque[int] = deque()
        self._called = When(self._has_order)

    def call(self, order: int) -> None:
        word = np.array([order], dtype=np.int64)
        for member in range(1, self.size):
            self._sent.append((self._orders.Isend(word, member), word))
        self.tend()

    def _has_order(self) -> bool:
        if self.rank and not self._taken and self._expected.Test():
            self._taken.append(int(self._order[0]))
            self._expected = self._orders.Irecv(self._order, 0)
        return bool(self._taken)

    def try_take(self) -> int | None:
        return self._taken.popleft() if self._has_order() else None

    def take(self) -> Generator[Wait, None, int]:
        while (order := self.try_take()) is None:
            yield Wait((self._called,), f"an order of {self._members[0]} in {self.name}", (self._members[0],))
        return order

    @property
    def called(self) -> Endpoint:
        return self._called

    def tend(self) -> None:
        """Let orders go out."""
        while self._sent and self._sent[0][0].Test():
            self._sent.popleft()

    def renew(self) -> None:
        """A team goes on with its orders."""

    def close(self) -> None:
        """Give the communicators back, together with the other members."""
        if self._expected != MPI.REQUEST_NULL:
            self._expected.Cancel()
            self._expected.Wait()
        self._orders.Free()
        self.comm.Free()
