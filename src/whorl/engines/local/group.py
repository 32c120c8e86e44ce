"""A group between processes: every member writes its rows, waits for the others, and adds all rows in order itself.

Rows and arrival words alternate between two parities. A member can be one round ahead of another at most (it needs the
other's arrival to go further), so nobody writes rows that somebody still reads, and one wait per round is enough.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import reduce
from operator import or_

import numpy as np

from whorl.engines import waits
from whorl.engines.contract import RoleId, Wait
from whorl.engines.local.memory import fence, map_segment, padded, words_of
from whorl.engines.local.polling import FdEndpoint, ring, silence
from whorl.engines.local.status import StatusClock
from whorl.engines.summing import OrderedSum
from whorl.types import Array, Layout


def segment_bytes(layout: Layout, members: int, buffers: int) -> int:
    """The size of a group's segment."""
    return padded(_word_bytes(members)) + 2 * members * buffers * padded(layout.size_bytes)


def _word_bytes(members: int) -> int:
    """Two broadcast values; whether somebody looks on; each member's last round; its flags, for two parities."""
    return 8 * (3 + 3 * members)


BROUGHT_ROWS = 1 << 32
"""In the place of flags: the member brought rows to this meeting."""


class GroupSegment:
    """The segment as words and rows."""

    def __init__(self, segment: int, layout: Layout, members: int, buffers: int) -> None:
        view = map_segment(segment)
        words = words_of(view, 3 + 3 * members)
        self.values, self.watched, self.rounds = words[:2], words[2:3], words[3 : 3 + members]
        self.flags = words[3 + members : 3 + 2 * members], words[3 + 2 * members :]
        data = np.frombuffer(view, dtype=np.uint8, offset=padded(_word_bytes(members)))
        stride, per_parity = padded(layout.size_bytes), members * buffers
        self.rows: list[list[Array]] = [
            [data[row * stride : row * stride + layout.size_bytes] for row in range(first, first + per_parity)]
            for first in (0, per_parity)
        ]


class LocalGroup:
    """One member's end. ``doorbells`` are all members', in order, and one for whoever looks on."""

    def __init__(
        self,
        name: str,
        layout: Layout,
        segment: int,
        doorbells: list[int],
        members: tuple[RoleId, ...],
        rank: int,
        buffers: int,
        clock: StatusClock,
    ) -> None:
        self.name = name
        self.rank = rank
        self.size = len(members)
        self._members = members
        self._buffers = buffers
        self._clock = clock
        self._sent_bytes = layout.size_bytes * buffers
        self._adder = OrderedSum(layout)
        shared = GroupSegment(segment, layout, self.size, buffers)
        self._values, self._rounds, self._flags, self._rows = shared.values, shared.rounds, shared.flags, shared.rows
        self._watched = shared.watched
        *doorbells, self._witness = doorbells
        self._runs = [[self._adder.runs(row) for row in rows] for rows in self._rows]
        self._own_doorbell = doorbells[rank]
        self._others = [doorbell for member, doorbell in enumerate(doorbells) if member != rank]
        self._complete = FdEndpoint(self._own_doorbell, self._all_arrived)
        self._round = self._rounds[rank]
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
        parity = (self._round + 1) & 1
        self._flags[parity][self.rank] = BROUGHT_ROWS
        for offset, buffer in enumerate(buffers):
            np.copyto(self._rows[parity][self.rank * self._buffers + offset], self._adder.raw(buffer))
        self._clock.count_sent(self._sent_bytes)
        self._arrive()

    def total(self) -> Generator[Wait, None, Array]:
        if self.size == 1:
            mine = self._brought
            # The sum of one is itself.
            return self._adder.raw(mine[0]) if len(mine) == 1 else self._adder.total(list(map(self._adder.runs, mine)))
        yield from self._await_all()
        return self._adder.total(self._runs[self._round & 1])

    def broadcast(self, value: int) -> Generator[Wait, None, int]:
        self._flags[(self._round + 1) & 1][self.rank] = 0
        if self.rank == 0:
            self._values[(self._round + 1) & 1] = value
        yield from self._meet()
        return self._values[self._round & 1]

    def union(self, flags: int) -> Generator[Wait, None, int]:
        self._flags[(self._round + 1) & 1][self.rank] = flags
        yield from self._meet()
        return reduce(or_, self._flags[self._round & 1])

    def barrier(self) -> Generator[Wait, None, None]:
        self._flags[(self._round + 1) & 1][self.rank] = 0
        yield from self._meet()

    def _meet(self) -> Generator[Wait, None, None]:
        self._arrive()
        yield from self._await_all()

    def _arrive(self) -> None:
        fence()
        self._round += 1
        self._rounds[self.rank] = self._round
        fence()  # so that of members who arrive at once at least one sees them all
        if min(self._rounds) >= self._round:  # nobody is woken for less
            ring(self._others)
        if self._watched[0]:  # members elsewhere are to hear of it
            ring([self._witness])

    def _await_all(self) -> Generator[Wait, None, None]:
        while not self._all_arrived():
            yield waits.all_members(self._complete, self.name, tuple(self._missing()))
        fence()

    def _missing(self) -> list[RoleId]:
        return [who for who, round_ in zip(self._members, self._rounds, strict=True) if round_ < self._round]

    def _all_arrived(self) -> bool:
        if min(self._rounds) >= self._round:
            return True
        silence(self._own_doorbell)  # before the second look, so that no wake-up is lost between
        return min(self._rounds) >= self._round
