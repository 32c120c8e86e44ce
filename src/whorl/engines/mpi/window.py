"""One window per node: every one-sided endpoint has a place in it.

The window joins the ranks of one node only, is allocated by MPI (so it lies in shared memory), and is kept in one
lock-all epoch for its whole life: then an access needs nothing of the rank whose memory it is, however deep that is in
a step of its environment. Between nodes messages travel instead.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mpi4py import MPI

from whorl.engines.local.memory import fence, padded
from whorl.types import Array

WORD_BYTES = 8
_ASLEEP_S = 0.12
_PROBES = 4


@dataclass
class Shares:
    """Who hosts how much of the window: the same sums at every rank, because they follow from the plan."""

    sizes: dict[int, int] = field(default_factory=dict)

    def place(self, rank: int, size_bytes: int) -> int:
        """Set so many bytes aside at a rank; returns their offset."""
        offset = self.sizes.get(rank, 0)
        self.sizes[rank] = offset + padded(size_bytes)
        return offset


class NodeWindow:
    """The window of a node. Ranks are those of ``comm``; None of them is ever waited for."""

    def __init__(self, comm: MPI.Intracomm, size_bytes: int, private: bool = False) -> None:
        """``private`` memory is not allocated by MPI."""
        self.rank = comm.rank
        size_bytes = max(size_bytes, WORD_BYTES)
        self.handle = (
            MPI.Win.Create(np.zeros(size_bytes, dtype=np.uint8), 1, MPI.INFO_NULL, comm)
            if private
            else MPI.Win.Allocate(size_bytes, 1, MPI.INFO_NULL, comm)
        )
        segment: Any = self.handle.tomemory()
        memory = np.frombuffer(segment, dtype=np.uint8)
        memory[:] = 0
        self.memory: Array = memory
        self._word = np.zeros(1, dtype=np.int64)
        self._word_sent = [self._word, 1, MPI.INT64_T]
        comm.Barrier()
        self.handle.Lock_all(MPI.MODE_NOCHECK)

    def get(self, target: Array, rank: int, offset: int) -> None:
        """Copy bytes of a rank's share into ``target``."""
        if rank == self.rank:
            fence()
            np.copyto(target, self.memory[offset : offset + target.nbytes])
            return
        size_bytes = target.nbytes
        self.handle.Get([target, size_bytes, MPI.BYTE], rank, [offset, size_bytes, MPI.BYTE])
        self.handle.Flush(rank)

    def put(self, source: Array, rank: int, offset: int) -> None:
        """Copy bytes into a rank's share; they are there when this returns."""
        if rank == self.rank:
            np.copyto(self.memory[offset : offset + source.nbytes], source)
            fence()
            return
        size_bytes = source.nbytes
        self.handle.Put([source, size_bytes, MPI.BYTE], rank, [offset, size_bytes, MPI.BYTE])
        self.handle.Flush(rank)

    def store(self, value: int, rank: int, offset: int) -> None:
        """Set an 8-byte word, whole."""
        if rank == self.rank:
            fence()
            self.words(offset, 1)[0] = value
            fence()
            return
        self._word[0] = value
        self.handle.Accumulate(self._word_sent, rank, (offset, 1, MPI.INT64_T), MPI.REPLACE)
        self.handle.Flush(rank)

    def swap(self, expected: int, value: int, rank: int, offset: int) -> bool:
        """Set a word if it is what is expected; False when it is not."""
        new, old = np.array([value], dtype=np.int64), np.array([expected], dtype=np.int64)
        found = np.empty(1, dtype=np.int64)
        self.handle.Compare_and_swap(
            [new, 1, MPI.INT64_T], [old, 1, MPI.INT64_T], [found, 1, MPI.INT64_T], rank, offset
        )
        self.handle.Flush(rank)
        return int(found[0]) == expected

    def words(self, offset: int, count: int) -> Array:
        """Words of one's own share."""
        return self.memory[offset : offset + WORD_BYTES * count].view(np.int64)

    def free(self) -> None:
        """Together with the others of the node."""
        self.handle.Unlock_all()
        self.memory = np.empty(0, dtype=np.uint8)
        self.handle.Free()


def slowest_get_s(comm: MPI.Intracomm, quick_s: float, private: bool = False) -> float:
    """How long it takes to read the memory of a rank that is in no MPI call: the last of the node sleeps meanwhile.

    What is not quick is tried again, since the machine may be busy. ``private`` memory, which MPI has not allocated,
    needs its owner's attention on most libraries: to rehearse what then happens."""
    if comm.size == 1:
        return 0.0
    window = NodeWindow(comm, WORD_BYTES, private)
    slowest = np.zeros(1)
    for _ in range(_PROBES):
        comm.Barrier()
        slowest[0] = 0.0
        if comm.rank == comm.size - 1:
            time.sleep(_ASLEEP_S)
        else:
            time.sleep(_ASLEEP_S / 8)  # the sleeper may still be on its way out of the barrier, and serve us there
            slowest[0] = _quickest_get_s(window, comm.size - 1, _ASLEEP_S / 2)
        comm.Allreduce(MPI.IN_PLACE, slowest, MPI.MAX)
        if slowest[0] < quick_s:
            break
    window.free()
    return float(slowest[0])


def _quickest_get_s(window: NodeWindow, rank: int, for_s: float) -> float:
    """Of several tries; one that has to wait for its target is the only one."""
    word = np.zeros(WORD_BYTES, dtype=np.uint8)
    began, quickest_s = time.perf_counter(), float("inf")
    while not np.isfinite(quickest_s) or time.perf_counter() - began < for_s:
        started = time.perf_counter()
        window.get(word, rank, 0)
        quickest_s = min(quickest_s, time.perf_counter() - started)
        time.sleep(for_s / 30)
    return quickest_s
