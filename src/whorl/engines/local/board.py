"""A board between processes: two buffers in shared memory, each under a sequence lock, and a doorbell per reader.

The writer fills the older buffer while its sequence number is odd, so a reader that copied meanwhile sees that the
number changed and copies again (the newest value) or says that the version is gone (an older one). A writer that is
killed half-way leaves the newest value untouched.
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from whorl.engines import waits
from whorl.engines.contract import Endpoint, RoleId, Wait
from whorl.engines.local.memory import fence, map_segment, padded, words_of
from whorl.engines.local.polling import FdEndpoint, ring, silence
from whorl.engines.local.status import StatusClock
from whorl.errors import StalledError
from whorl.types import Array, Layout

_NEWEST, _VERSIONS, _SEQUENCES, _WORDS = 0, 1, 3, 5  # versions are kept plus one, so that zero means none
_MAX_TRIES = 10_000


def segment_bytes(layout: Layout) -> int:
    """The size of a board's segment."""
    return padded(8 * _WORDS) + 2 * padded(layout.size_bytes)


class LocalBoard:
    """One role's end of a board; ``doorbells`` are all readers' for the writer, the reader's own otherwise."""

    def __init__(
        self,
        name: str,
        layout: Layout,
        segment: int,
        doorbells: list[int],
        writer: RoleId,
        writes: bool,
        clock: StatusClock,
    ) -> None:
        self.name = name
        self.layout = layout
        self._writer = writer
        self._doorbells = doorbells
        self._clock = clock
        view = map_segment(segment)
        self._words = words_of(view, _WORDS)
        data = np.frombuffer(view, dtype=np.uint8, offset=padded(8 * _WORDS))
        stride = padded(layout.size_bytes)
        self._buffers = [data[slot * stride : slot * stride + layout.size_bytes] for slot in range(2)]
        self._last_read = -1
        self._target = 0
        if writes:  # what a lost incarnation finished and did not announce was never published
            for slot in range(_VERSIONS, _VERSIONS + 2):
                if self._words[slot] > self._words[_NEWEST]:
                    self._words[slot] = 0
        doorbell = -1 if writes else doorbells[0]
        self._changed = FdEndpoint(doorbell, self._has_changed)
        self._reached = FdEndpoint(doorbell, self._has_reached)

    @property
    def version(self) -> int:
        return self._words[_NEWEST] - 1

    @property
    def kept(self) -> list[int]:
        """The versions that can be read, the newest last."""
        newest = self.version
        return sorted(held - 1 for held in self._words[_VERSIONS : _VERSIONS + 2] if 0 < held <= newest + 1)

    def publish(self, version: int, buffer: Array) -> None:
        if version <= self.version:
            raise ValueError(f"{self.name} is at version {self.version}; {version} is not newer")
        words = self._words
        slot = 0 if words[_VERSIONS] < words[_VERSIONS + 1] else 1
        words[_SEQUENCES + slot] |= 1  # also right when a lost incarnation left it odd
        words[_VERSIONS + slot] = 0
        fence()
        np.copyto(self._buffers[slot], buffer.reshape(-1).view(np.uint8))
        fence()
        words[_VERSIONS + slot] = version + 1
        words[_SEQUENCES + slot] += 1
        fence()
        words[_NEWEST] = version + 1
        ring(self._doorbells)
        self._clock.count_sent(self.layout.size_bytes)

    def read(self, buffer: Array, version: int | None = None) -> int:
        target = buffer.reshape(-1).view(np.uint8)
        for _ in range(_MAX_TRIES):
            wanted = self.version if version is None else version
            if self._copy(wanted, target):
                self._last_read = max(self._last_read, wanted)
                return wanted
            if version is not None or wanted < 0:
                raise LookupError(f"{self.name} has no version {wanted}; the newest is {self.version}")
        raise StalledError(f"{self._writer} writes {self.name} faster than it can be read")

    def _copy(self, wanted: int, target: Array) -> bool:
        """Copy a version; False when it is not there, or was overwritten meanwhile."""
        words = self._words
        for slot in range(2):
            sequence = words[_SEQUENCES + slot]
            fence()
            if wanted >= 0 and words[_VERSIONS + slot] == wanted + 1 and not sequence & 1:
                np.copyto(target, self._buffers[slot][: len(target)])
                fence()
                return words[_SEQUENCES + slot] == sequence
        return False

    def _has_changed(self) -> bool:
        if self.version > self._last_read:
            return True
        silence(self._changed.fd)  # before the second look, so that no wake-up is lost between
        return self.version > self._last_read

    def _has_reached(self) -> bool:
        if self.version >= self._target:
            return True
        silence(self._reached.fd)
        return self.version >= self._target

    def wait_for(self, version: int) -> Generator[Wait, None, None]:
        self._target = version
        while self.version < version:
            yield waits.new_version(self._reached, self.name, version, self._writer)

    @property
    def changed(self) -> Endpoint:
        return self._changed
