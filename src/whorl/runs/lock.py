"""One writer per run directory: a kernel lock, who holds it, and a fencing token that grows with each taking.

The kernel frees the lock when its holder dies, so a stale one is never an obstacle. The token covers what the lock
cannot: a process of the old run that outlived its driver still carries the old token, and its save is refused.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

from whorl.errors import BadInputError, RunBusyError
from whorl.runs.files import os_reason

_RECORD_BYTES = 512
_LOOKS_END_S = 1.0
"""Whoever only looks whether the lock is held holds it for an instant."""
_NO_LOCKS_HERE = {errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK}


@dataclass(frozen=True)
class Holder:
    """Who took the run directory last, as written in its ``lock`` file."""

    pid: int
    host: str
    since: str
    """Local time, for people; nothing is decided by it."""
    token: int

    def __str__(self) -> str:
        return f"pid {self.pid} on {self.host} since {self.since}"


def read_holder(path: Path) -> Holder | None:
    """The last holder, or None when nobody took the lock yet or the file is not readable as one."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        return msgspec.json.decode(os.pread(descriptor, _RECORD_BYTES, 0), type=Holder)
    except (OSError, msgspec.MsgspecError, ValueError):
        return None
    finally:
        os.close(descriptor)


class RunLock:
    """Held from construction to ``close``; a context manager.

    ``least_token`` is the newest token already seen elsewhere (in checkpoints), so that a lost lock file cannot turn
    tokens back.
    """

    def __init__(self, path: Path, least_token: int = 0) -> None:
        self.warnings: list[str] = []
        self._pid = os.getpid()
        self._descriptor = _open(path)
        try:
            self._lock(path)
            previous = read_holder(path)
            self.holder = Holder(
                pid=os.getpid(),
                host=socket.gethostname(),
                since=time.strftime("%Y-%m-%d %H:%M:%S"),
                token=1 + max(least_token, previous.token if previous else 0),
            )
            self._write()
        except OSError as error:
            self.close()
            raise BadInputError(f"{path}: cannot write the lock: {os_reason(error)}") from error
        except BaseException:
            self.close()
            raise

    @property
    def token(self) -> int:
        """The fencing token of this taking."""
        return self.holder.token

    def _lock(self, path: Path) -> None:
        try:
            self._take()
        except BlockingIOError:
            holder = read_holder(path)
            who = f"by {holder}" if holder else "by another process"
            raise RunBusyError(
                f"{path.parent}: the run is held {who}; stop that run first, or give another --run-dir"
            ) from None
        except OSError as error:
            if error.errno not in _NO_LOCKS_HERE:
                raise BadInputError(f"{path}: cannot lock the run directory: {os_reason(error)}") from error
            self.warnings.append(
                f"{path.parent}: this file system has no locks ({os_reason(error)}); only the fencing token keeps a "
                "second run out, so start one run at a time"
            )

    def _take(self) -> None:
        end = time.monotonic() + _LOOKS_END_S
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise
            time.sleep(0.02)

    def _write(self) -> None:
        # In place and never by rename: the kernel lock belongs to this very file.
        # One write of a fixed length, so that nobody ever reads half of it.
        data = msgspec.json.encode(self.holder).ljust(_RECORD_BYTES - 1) + b"\n"
        os.pwrite(self._descriptor, data, 0)
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Let go. The file stays: its token must not be forgotten."""
        if self._descriptor >= 0:
            # An environment may have forked: such a child must not hold the lock on, nor free it when it unwinds.
            if os.getpid() == self._pid:
                with contextlib.suppress(OSError):
                    fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> RunLock:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def is_held(path: Path) -> bool:
    """Whether somebody holds the lock now. Where file systems have no locks nobody knows: then True."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise BadInputError(
            f"{path.parent}: cannot take the run for writing: {os_reason(error)}; copy it to a place you can write to"
        ) from error
