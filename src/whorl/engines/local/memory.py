"""Anonymous shared memory: memfd segments that are passed by descriptor.

Nothing has a name, so nothing can be left behind or opened by others, and the size of /dev/shm does not matter. The
pages are allocated at the start: a shortage is an error then, and never a SIGBUS later.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import threading

from whorl.errors import BadInputError

_fence_lock = threading.Lock()


def fence() -> None:
    """A full memory barrier: two rounds of a lock, whose acquire and release order what lies before and after."""
    with _fence_lock:
        pass
    with _fence_lock:
        pass


def create_segment(name: str, size_bytes: int) -> int:
    """The descriptor of a new zeroed segment whose size can never change. ``name`` only shows in /proc."""
    descriptor = os.memfd_create(f"whorl-{name}"[:200], os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.posix_fallocate(descriptor, 0, size_bytes)
    except OSError as error:
        os.close(descriptor)
        raise BadInputError(
            f"no {size_bytes / 2**20:,.1f} MiB of shared memory left for {name} ({error.strerror}); "
            "use fewer actors or environments, or shorter trajectories"
        ) from error
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return descriptor


def map_segment(descriptor: int) -> memoryview:
    """A segment's bytes. The mapping keeps the memory alive; the descriptor may be closed."""
    size_bytes = os.fstat(descriptor).st_size
    return memoryview(mmap.mmap(descriptor, size_bytes, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE))


def words_of(view: memoryview, count: int) -> memoryview:
    """The first ``count`` int64 words: each is read and written whole."""
    return view[: 8 * count].cast("q")


def padded(size_bytes: int) -> int:
    """Rounded up to whole cache lines."""
    return -(-size_bytes // 64) * 64


def close_all(descriptors: list[int]) -> None:
    """Close descriptors and forget them."""
    while descriptors:
        os.close(descriptors.pop())
