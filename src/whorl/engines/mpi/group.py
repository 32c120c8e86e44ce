"""A group by messages: everybody sends its buffers to everybody, and each member adds them all in order itself.

MPI's own all-reduce adds in an order of its own, which differs between libraries and numbers of ranks.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import reduce
from operator import or_

import numpy as np
from mpi4py import MPI

from whorl.engines import waits
from whorl.engines.contract import RoleId, Wait
from whorl.engines.inline.endpoints import When
from whorl.engines.mpi.pages import RankClock
from whorl.engines.summing import OrderedSum
from whorl.types import Array, Layout


class MpiGroup:
    """One member's end. ``ranks`` are all members' in order; ``tag`` is the group's."""

    def __init__(
        self,
        name: str,
        layout: Layout,
        members: tuple[RoleId, ...],
        place: int,
        buffers: int,
        comm: MPI.Intracomm,
        ranks: tuple[int, ...],
        tag: int,
        clock: RankClock,
    ) -> None:
        self.name = name
        self.rank = place
        self.size = len(members)
        self._members, self._ranks, self._tag = members, ranks, tag
        self._comm = comm
        self._clock = clock
        self._buffers = buffers
        self._adder = OrderedSum(layout)
        stride = layout.size_bytes
        self._rows = [np.zeros(buffers * stride, dtype=np.uint8) for _ in members]
        self._runs = [
            self._adder.runs(row[part * stride : (part + 1) * stride]) for row in self._rows for part in range(buffers)
        ]
        self._words = np.zeros((self.size, 1), dtype=np.int64)
        self._outgoing: list[MPI.Request] = []
        self._incoming: dict[int, MPI.Request] = {}
        self._complete = When(self._all_arrived)
        self._brought: Sequence[Array] = ()

    def sum(self, buffers: Sequence[Array]) -> Generator[Wait, None, Array]:
        self.bring(buffers)
        return (yield from self.total())

    def bring(self, buffers: Sequence[Array]) -> None:
        if len(buffers) != self._buffers:
            raise ValueError(f"{self.name} takes {self._buffers} buffers of each member, got {len(buffers)}")
        if self.size == 1:
            self._brought = buffers
            return
        np.concatenate([self._adder.raw(buffer) for buffer in buffers], out=self._rows[self.rank])
        self._exchange(self._rows)
        self._clock.count_sent(self._rows[self.rank].nbytes * (self.size - 1))

    def total(self) -> Generator[Wait, None, Array]:
        if self.size == 1:
            mine = self._brought
            # The sum of one is itself.
            return self._adder.raw(mine[0]) if len(mine) == 1 else self._adder.total(list(map(self._adder.runs, mine)))
        yield from self._await_all()
        return self._adder.total(self._runs)

    def broadcast(self, value: int) -> Generator[Wait, None, int]:
        return (yield from self._meet(value))[0]

    def union(self, flags: int) -> Generator[Wait, None, int]:
        return reduce(or_, (yield from self._meet(flags)))

    def barrier(self) -> Generator[Wait, None, None]:
        yield from self._meet(0)

    def _meet(self, value: int) -> Generator[Wait, None, list[int]]:
        """Everybody's word, at every member."""
        self._words[self.rank] = value
        self._exchange(list(self._words))
        yield from self._await_all()
        return self._words[:, 0].tolist()  # type: ignore[no-any-return]

    def _exchange(self, rows: list[Array]) -> None:
        others = [member for member in range(self.size) if member != self.rank]
        self._incoming = {member: self._comm.Irecv(rows[member], self._ranks[member], self._tag) for member in others}
        self._outgoing = [self._comm.Isend(rows[self.rank], self._ranks[member], self._tag) for member in others]

    def _await_all(self) -> Generator[Wait, None, None]:
        while not self._all_arrived():
            missing = tuple(self._members[member] for member in self._incoming)
            yield waits.all_members(self._complete, self.name, missing or self._members)

    def _all_arrived(self) -> bool:
        """Everything has come, and what this member brought has gone: its rows may be written again."""
        self._incoming = {member: request for member, request in self._incoming.items() if not request.Test()}
        self._outgoing = [request for request in self._outgoing if not request.Test()]
        return not self._incoming and not self._outgoing

    def tend(self) -> None:
        """Let what is under way go on."""
        if self._incoming or self._outgoing:
            self._all_arrived()

    def renew(self) -> None:
        """Members do not begin again one by one."""

    def close(self) -> None:
        """Nothing is waited for any more."""
        for request in self._incoming.values():
            if request != MPI.REQUEST_NULL:
                request.Cancel()
                request.Wait()
