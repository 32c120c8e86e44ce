"""A channel in a window: the writer puts, whoever may read takes, and nobody waits for anybody's attention.

The slots lie at the first reader's rank: it finds them in its own memory, and a writer that goes straight on into a
long step has handed over already. A slot has one word, ``hand-over number * 256 + state``; the writer changes it from
FREE to FILLED, a reader from FILLED to its own mark (by an atomic swap where there are several readers) and back to
FREE.
"""

from __future__ import annotations

import numpy as np

from whorl.engines.contract import RoleId
from whorl.engines.local.memory import fence, padded
from whorl.engines.mpi.ends import ReaderEnd, WriterEnd
from whorl.engines.mpi.pages import RankClock
from whorl.engines.mpi.window import WORD_BYTES, NodeWindow
from whorl.types import Array, Arrays, Layout

FREE, FILLED, CLAIMED = 0, 1, 2
_STATES = 256


def ring_bytes(layout: Layout, slots: int) -> int:
    """A ring's part of its host's share."""
    return padded(WORD_BYTES * slots) + slots * padded(layout.size_bytes)


class _Ring:
    """The place of a ring in a node's window."""

    def __init__(self, window: NodeWindow, host: int, offset: int, layout: Layout, slots: int) -> None:
        self.window, self.host, self.slots = window, host, slots
        self._offset = offset
        self._data = offset + padded(WORD_BYTES * slots)
        self._stride = padded(layout.size_bytes)
        self._size_bytes = layout.size_bytes
        self._words = np.zeros(slots, dtype=np.int64)
        self._raw_words = self._words.view(np.uint8)

    @property
    def is_here(self) -> bool:
        return self.host == self.window.rank

    def look(self) -> list[int]:
        """The words of all slots."""
        self.window.get(self._raw_words, self.host, self._offset)
        return self._words.tolist()

    def data(self, slot: int) -> int:
        """Where the bytes of a slot are."""
        return self._data + slot * self._stride

    def own(self, slot: int) -> Array:
        """A slot's bytes at its host."""
        return self.window.memory[self.data(slot) : self.data(slot) + self._size_bytes]

    def mark(self, slot: int, number: int, state: int) -> None:
        self.window.store(number * _STATES + state, self.host, self._offset + slot * WORD_BYTES)

    def swap(self, slot: int, number: int, state: int) -> bool:
        """FILLED to a reader's mark; False when somebody was quicker."""
        expected, wanted = number * _STATES + FILLED, number * _STATES + state
        return self.window.swap(expected, wanted, self.host, self._offset + slot * WORD_BYTES)


class RingWriter(WriterEnd):
    """Fills a buffer of its own and puts it into a free slot."""

    def __init__(
        self,
        name: str,
        layout: Layout,
        slots: int,
        window: NodeWindow,
        host: int,
        offset: int,
        readers: tuple[RoleId, ...],
        clock: RankClock,
    ) -> None:
        super().__init__(name, layout, readers)
        self.ring = _Ring(window, host, offset, layout, slots)
        self._clock = clock
        self._buffer = layout.allocate()
        self._arrays = layout.views(self._buffer)
        self._free = list(range(slots))
        self.handed_over = 0

    def _next_slot(self) -> Arrays | None:
        if not self._free:
            self._free = [slot for slot, word in enumerate(self.ring.look()) if word % _STATES == FREE]
        return self._arrays if self._free else None

    def _hand_over(self) -> None:
        slot = self._free.pop(0)
        self.ring.window.put(self._buffer, self.ring.host, self.ring.data(slot))
        self.handed_over += 1
        self.ring.mark(slot, self.handed_over, FILLED)
        self._clock.count_sent(self.layout.size_bytes)

    @property
    def filled(self) -> int:
        return sum(word % _STATES != FREE for word in self.ring.look())

    def tend(self) -> None:
        """Nothing is under way."""

    def close(self) -> None:
        """Nothing is under way."""


class RingReader(ReaderEnd):
    """Takes slots at their host in place, elsewhere by copy."""

    def __init__(
        self,
        name: str,
        layout: Layout,
        slots: int,
        window: NodeWindow,
        host: int,
        offset: int,
        writer: RoleId,
        place: int,
        alone: bool,
    ) -> None:
        """``place`` tells the readers of a channel apart."""
        super().__init__(name, layout, writer)
        self.ring = _Ring(window, host, offset, layout, slots)
        self._mark = CLAIMED + place
        self._alone = alone
        self._numbers = [0] * slots
        if self.ring.is_here:
            self._buffers = [self.ring.own(slot) for slot in range(slots)]
        else:
            self._buffers = [layout.allocate() for _ in range(slots)]
        self._arrays = [layout.views(buffer) for buffer in self._buffers]

    def _can_read(self) -> bool:
        return any(word % _STATES == FILLED for word in self.ring.look())

    def _next_filled(self) -> tuple[int, Arrays] | None:
        while True:
            filled = [(word, slot) for slot, word in enumerate(self.ring.look()) if word % _STATES == FILLED]
            if not filled:
                return None
            word, slot = min(filled)
            number = word // _STATES
            if self._alone:
                self.ring.mark(slot, number, self._mark)
            elif not self.ring.swap(slot, number, self._mark):
                continue
            self._numbers[slot] = number
            fence()
            if not self.ring.is_here:
                self.ring.window.get(self._buffers[slot], self.ring.host, self.ring.data(slot))
            return slot, self._arrays[slot]

    def _give_back(self, slot: int) -> None:
        self.ring.mark(slot, self._numbers[slot], FREE)

    @property
    def filled(self) -> int:
        return sum(word % _STATES != FREE for word in self.ring.look())

    @property
    def handed_over(self) -> int:
        return max(self.ring.look()) // _STATES

    def tend(self) -> None:
        """Nothing is under way."""

    def close(self) -> None:
        """Nothing is under way."""
