"""A board in windows: one copy per node, two versions in each, and a version word that readers look at first.

The writer writes its own node's copy where it lies (in its own memory) and sends each version to one reader of every
other node, the *keeper*, which writes that node's copy. Readers get from the copy of their node: no message, and
nobody's attention needed. The sequence lock is the one of shared memory: odd while a buffer is being written.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Generator

import numpy as np
from mpi4py import MPI

from whorl.engines import waits
from whorl.engines.contract import Endpoint, RoleId, Wait
from whorl.engines.inline.endpoints import When
from whorl.engines.local.memory import fence, padded
from whorl.engines.mpi.pages import RankClock
from whorl.engines.mpi.requests import PeerLost, cancel, done, over, receive, send
from whorl.engines.mpi.window import WORD_BYTES, NodeWindow
from whorl.errors import StalledError
from whorl.types import Array, Layout

_NEWEST, _VERSIONS, _SEQUENCES, _WORDS = 0, 1, 3, 5  # versions are kept plus one, so that zero means none
_MAX_TRIES = 10_000
_MOST_QUEUED = 2


def copy_bytes(layout: Layout) -> int:
    """A board's part of its host's share."""
    return padded(WORD_BYTES * _WORDS) + 2 * padded(layout.size_bytes)


class Copy:
    """The copy of a node, at ``host``."""

    def __init__(self, window: NodeWindow, host: int, offset: int, layout: Layout) -> None:
        self.window, self.host, self._offset = window, host, offset
        self._data = offset + padded(WORD_BYTES * _WORDS)
        self._stride = padded(layout.size_bytes)
        self._size_bytes = layout.size_bytes
        self._is_here = host == window.rank
        self._words = window.words(offset, _WORDS) if self._is_here else np.zeros(_WORDS, dtype=np.int64)
        self._raw_words = self._words.view(np.uint8)
        self._newest = np.zeros(1, dtype=np.int64)
        self._raw_newest = self._newest.view(np.uint8)

    @property
    def version(self) -> int:
        """The newest version."""
        if self._is_here:
            return int(self._words[_NEWEST]) - 1
        self.window.get(self._raw_newest, self.host, self._offset)
        return int(self._newest[0]) - 1

    def write(self, version: int, buffer: Array) -> None:
        """At its host alone: into the older of the two buffers, then announce it."""
        words = self._words
        slot = 0 if words[_VERSIONS] < words[_VERSIONS + 1] else 1
        words[_SEQUENCES + slot] |= 1
        words[_VERSIONS + slot] = 0
        fence()
        start = self._data + slot * self._stride
        np.copyto(self.window.memory[start : start + self._size_bytes], buffer)
        fence()
        words[_VERSIONS + slot] = version + 1
        words[_SEQUENCES + slot] += 1
        fence()
        words[_NEWEST] = version + 1

    def read(self, wanted: int, target: Array) -> bool:
        """Copy a version; False when it is not there, or was overwritten meanwhile."""
        words = self._look()
        for slot in range(2):
            sequence = words[_SEQUENCES + slot]
            if wanted >= 0 and words[_VERSIONS + slot] == wanted + 1 and not sequence & 1:
                self.window.get(target, self.host, self._data + slot * self._stride)
                return self._look()[_SEQUENCES + slot] == sequence
        return False

    def _look(self) -> list[int]:
        fence()
        if not self._is_here:
            self.window.get(self._raw_words, self.host, self._offset)
        return self._words.tolist()


class _Deliveries:
    """What the writer sends to the keeper of another node: at most a few versions, the newest of them for sure."""

    def __init__(self, comm: MPI.Intracomm, keeper: int, tag: int) -> None:
        self._comm, self._keeper, self._tag = comm, keeper, tag
        self._waiting: deque[Array] = deque(maxlen=_MOST_QUEUED)
        self._under_way: tuple[MPI.Request, Array] | None = None

    def send(self, parcel: Array) -> None:
        self._waiting.append(parcel)
        self.tend()

    def tend(self) -> None:
        while True:
            if self._under_way is not None:
                if not over(self._under_way[0]):
                    return
                self._under_way = None
            if not self._waiting:
                return
            parcel = self._waiting.popleft()
            self._under_way = (send(self._comm, parcel, self._keeper, self._tag), parcel)


class MpiBoard:
    """One role's end of a board. ``keepers`` are the writer's to send to; ``deliverer`` is a keeper's writer."""

    def __init__(
        self,
        name: str,
        layout: Layout,
        copy: Copy | None,
        writer: RoleId,
        clock: RankClock,
        comm: MPI.Intracomm,
        tag: int,
        keepers: tuple[int, ...] = (),
        deliverer: int | None = None,
    ) -> None:
        """``copy`` is None for a writer on whose node nobody reads."""
        self.name = name
        self.layout = layout
        self.copy = copy
        self._writer = writer
        self._clock = clock
        self._comm, self._tag = comm, tag
        self._deliveries = [_Deliveries(comm, keeper, tag) for keeper in keepers]
        self._deliverer = deliverer
        self._published = -1
        self._last_read = -1
        self._target = 0
        self._changed = When(lambda: self.version > self._last_read)
        self._reached = When(lambda: self.version >= self._target)
        self._parcel = np.zeros(WORD_BYTES + layout.size_bytes, dtype=np.uint8)
        self._expected = MPI.REQUEST_NULL if deliverer is None else comm.Irecv(self._parcel, deliverer, tag)

    @property
    def version(self) -> int:
        if self.copy is None:
            return self._published
        if self._deliverer is not None:
            self.tend()
        return self.copy.version

    def publish(self, version: int, buffer: Array) -> None:
        if version <= self.version:
            raise ValueError(f"{self.name} is at version {self.version}; {version} is not newer")
        raw = buffer.reshape(-1).view(np.uint8)
        self._published = version
        if self.copy is not None:
            self.copy.write(version, raw)
        if self._deliveries:
            parcel = np.concatenate([np.array([version], dtype=np.int64).view(np.uint8), raw])
            for delivery in self._deliveries:
                delivery.send(parcel)
        self._clock.count_sent(self.layout.size_bytes)

    def tend(self) -> None:
        """Send what waits; a keeper takes in what has come."""
        for delivery in self._deliveries:
            delivery.tend()
        with contextlib.suppress(PeerLost):
            while self._deliverer is not None and self._expected != MPI.REQUEST_NULL and done(self._expected):
                assert self.copy is not None
                self.copy.write(int(self._parcel[:WORD_BYTES].view(np.int64)[0]), self._parcel[WORD_BYTES:])
                self._expected = receive(self._comm, self._parcel, self._deliverer, self._tag)

    def read(self, buffer: Array, version: int | None = None) -> int:
        target = buffer.reshape(-1).view(np.uint8)
        for _ in range(_MAX_TRIES):
            wanted = self.version if version is None else version
            if self.copy is not None and self.copy.read(wanted, target):
                self._last_read = max(self._last_read, wanted)
                return wanted
            if version is not None or wanted < 0:
                raise LookupError(f"{self.name} has no version {wanted}; the newest is {self.version}")
        raise StalledError(f"{self._writer} writes {self.name} faster than it can be read")

    def wait_for(self, version: int) -> Generator[Wait, None, None]:
        self._target = version
        while self.version < version:
            yield waits.new_version(self._reached, self.name, version, self._writer)

    @property
    def changed(self) -> Endpoint:
        return self._changed

    def renew(self) -> None:
        """The role begins again, and has read nothing yet."""
        self._last_read = -1

    def close(self) -> None:
        """Nothing is waited for any more."""
        cancel(self._expected)
