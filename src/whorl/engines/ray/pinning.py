"""Cores of one's own. The stations of a machine share them out by locks, which the kernel gives back with a process.

Ray counts CPUs and does not say which: two stations of a node would pin themselves to the same ones.
"""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path

from whorl.errors import WhorlError

FOLDER = Path("/tmp") / f"whorl-cores-{os.getuid()}"
"""Of this machine and user, and not in TMPDIR: each job may have one of its own, and they are to meet."""
_held: dict[int, int] = {}
"""Descriptors of locks, by core: held until this process ends."""


def lock_folder() -> Path:
    """Made where it is not there. /tmp is everybody's: what somebody else has put in its place is refused."""
    FOLDER.mkdir(mode=0o700, exist_ok=True)
    found = FOLDER.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise WhorlError(f"{FOLDER} is not a folder of this user alone: have it removed")
    return FOLDER


def pin(count: int) -> list[int]:
    """Keep this thread, and the processes it starts, to so many cores that nobody else is pinned to. Returns them; none
    when there are not as many, and then nothing has changed. ``WhorlError`` where locks cannot be had."""
    folder = lock_folder()
    free: list[int] = []
    for core in sorted(os.sched_getaffinity(0) - _held.keys()):
        if len(free) < count and _take(folder, core):
            free.append(core)
    if not free or len(free) < count:
        for core in free:
            os.close(_held.pop(core))
        return []
    os.sched_setaffinity(0, free)
    return free


def _take(folder: Path, core: int) -> bool:
    descriptor = os.open(folder / f"core-{core}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return False
    _held[core] = descriptor
    return True
