"""What a test may leave behind: nothing. Linux only, from /proc, cheap enough to run around every test.

Processes are recognised by a tag in their environment, so that an orphan (whose parent is no longer ours) is found
too. Only what is new since the test began is looked at; that is one directory listing for a clean test.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing.forkserver
import multiprocessing.resource_tracker
import os
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path

TAG_VARIABLE = "WHORL_TEST_SESSION"
SPARE_DESCRIPTORS = 8  # a first import may keep a file or two open; a leak in a loop shows
GRACE_S = float(os.environ.get("WHORL_TEST_GRACE_S", "2"))
KEPT: set[int] = set()
"""Children that the tests of a session share."""
EXEC_LOOKS = 5
PROC = Path("/proc")
SHM = Path("/dev/shm")


@dataclass(frozen=True)
class Snapshot:
    """Everything a test could leak, before it ran."""

    pids: frozenset[str]
    threads: frozenset[threading.Thread]
    descriptors: frozenset[str]
    memfds: frozenset[str]
    shm: frozenset[str]

    @classmethod
    def take(cls) -> Snapshot:
        return cls(
            pids=frozenset(os.listdir(PROC)),
            threads=frozenset(threading.enumerate()),
            descriptors=frozenset(os.listdir("/proc/self/fd")),
            memfds=_memfds(),
            shm=frozenset(os.listdir(SHM)) if SHM.is_dir() else frozenset(),
        )

    def leaks(self) -> tuple[list[str], list[int]]:
        """What is there now and was not then, in words, and the processes among it. Waits a little for the tardy."""
        words, pids = self._look()
        deadline = time.monotonic() + GRACE_S
        while words and time.monotonic() < deadline:
            gc.collect()
            time.sleep(0.02)
            words, pids = self._look()
        return words, pids

    def _look(self) -> tuple[list[str], list[int]]:
        ours = _our_processes(frozenset(os.listdir(PROC)) - self.pids)
        words = [f"process {pid}: {_describe(pid)}" for pid in ours]
        words += [
            f"thread {thread.name} (not a daemon)"
            for thread in threading.enumerate()
            if thread not in self.threads and not thread.daemon and thread.is_alive()
        ]
        words += [f"memfd {name}" for name in sorted(_memfds() - self.memfds)]
        new = sorted(frozenset(os.listdir("/proc/self/fd")) - self.descriptors, key=int)
        targets = [target for number in new if (target := _target(number))]
        if len(targets) > SPARE_DESCRIPTORS:
            words.append(f"{len(targets)} descriptors, the last few: {', '.join(targets[-4:])}")
        if SHM.is_dir():
            appeared = sorted(frozenset(os.listdir(SHM)) - self.shm)
            words += [f"shared memory {SHM / name}" for name in appeared if not _used_by_others(str(SHM / name))]
        return words, ours


def end(pids: list[int]) -> None:
    """Kill what a test left, so that the next test is not blamed for it."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)


def _our_processes(candidates: frozenset[str]) -> list[int]:
    """Those that are our children (zombies too) or carry our tag; multiprocessing's own two helpers are not leaks."""
    helpers = {
        getattr(multiprocessing.forkserver._forkserver, "_forkserver_pid", None),
        getattr(multiprocessing.resource_tracker._resource_tracker, "_pid", None),
    }
    tag = f"{TAG_VARIABLE}={os.environ[TAG_VARIABLE]}".encode()
    found = []
    for name in candidates:
        if not name.isdigit() or int(name) in helpers or int(name) in KEPT:
            continue
        with contextlib.suppress(OSError):
            parent = int((PROC / name / "stat").read_bytes().rpartition(b")")[2].split()[1])
            if parent == os.getpid() or tag in environ_of(name).split(b"\0"):
                found.append(int(name))
    return sorted(found)


def environ_of(pid: str) -> bytes:
    """A process that is just becoming another program has none, for a moment; threads of the kernel and the dead, who
    never have any, have no program either."""
    for _ in range(EXEC_LOOKS):
        if found := (PROC / pid / "environ").read_bytes():
            return found
        (PROC / pid / "exe").readlink()
        time.sleep(0.002)
    return b""


def has_ended(pid: int) -> bool:
    """Also an orphan whose exit code nobody has asked for yet."""
    try:
        return (PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()[0] in (b"Z", b"X")
    except OSError:
        return True


def _describe(pid: int) -> str:
    with contextlib.suppress(OSError):
        command = (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        return command[:120] or "a zombie, never waited for"
    return "just gone"


def _memfds() -> frozenset[str]:
    """Anonymous shared memory this process holds: descriptors and mappings (a mapping outlives its descriptor)."""
    held = {f"descriptor {number}" for number in os.listdir("/proc/self/fd") if _target(number).startswith("/memfd:")}
    with open("/proc/self/maps", "rb") as maps:
        mapped = [line for line in maps if b"/memfd:" in line]
    return frozenset(held | {f"mapping {line.split(maxsplit=5)[5].decode().strip()}" for line in mapped})


def _target(descriptor: str) -> str:
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/self/fd/{descriptor}")
    return ""


def _used_by_others(path: str) -> bool:
    """Somebody outside this test run has it open or mapped: theirs, not ours."""
    for name in os.listdir(PROC):
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError):
                if path.encode() in (PROC / name / "maps").read_bytes():
                    return True
                if any(os.readlink(link) == path for link in (PROC / name / "fd").iterdir()):
                    return True
    return False
