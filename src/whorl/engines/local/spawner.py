"""The driver's side of the nursery: start it, ask it for processes, hear of their deaths."""

from __future__ import annotations

import array
import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import whorl
from whorl.engines.local.nursery import STOP_SIGNALS
from whorl.engines.local.parcels import send_parcel
from whorl.engines.threads import thread_environ
from whorl.engines.wire import decode_body, encode_body
from whorl.errors import RoleLostError

_REPLY_S = 120.0  # the first reply waits for the nursery's imports, which a cold network file system makes slow


class NurseryLostError(Exception):
    """The nursery died, and every role with it."""


@dataclass(frozen=True)
class Exit:
    """How a process ended."""

    status: int
    """As of ``os.wait``."""
    cpu_s: float


class Spawner:
    """Owns a nursery."""

    def __init__(self, preload: list[str]) -> None:
        self._preload = preload
        self._exits: dict[int, Exit] = {}
        self.lost = False
        self.start()

    def start(self) -> None:
        """Start a nursery; it imports while the driver goes on."""
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environ = dict(os.environ)
        package_root = str(Path(whorl.__file__).parent.parent)
        search = os.pathsep.join(filter(None, (package_root, environ.get("PYTHONPATH", ""))))
        in_main_thread = int(threading.current_thread() is threading.main_thread())
        arguments = [str(theirs.fileno()), str(os.getpid()), str(in_main_thread)]
        with theirs, stop_signals_blocked():
            self._process = subprocess.Popen(
                [sys.executable, "-m", "whorl.engines.local.nursery", *arguments],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={**environ, "PYTHONPATH": search, **thread_environ(1)},
            )
        self._poller = select.poll()
        self._poller.register(self._connection.fileno(), select.POLLIN)
        self.lost = False
        setup = {
            "sys_path": [os.fsencode(str(path)) for path in sys.path],
            "environ": list(os.environb.items()),
            "preload": self._preload,
        }
        send_parcel(self._connection, encode_body(setup), [])

    def fileno(self) -> int:
        return self._connection.fileno()

    @property
    def pid(self) -> int:
        return self._process.pid

    def spawn(self, request: dict[str, Any], descriptors: list[int]) -> tuple[int, int]:
        """A new process; returns its pid and a pidfd. The descriptors are copied, not taken."""
        try:
            send_parcel(self._connection, encode_body(request), descriptors)
        except OSError as error:
            self.lost = True
            raise NurseryLostError(str(error)) from error
        end = time.monotonic() + _REPLY_S
        while time.monotonic() < end:
            reply, pidfd = self._receive(end - time.monotonic())
            if self.lost:
                raise NurseryLostError("it ended")
            if "error" in reply:
                raise RoleLostError(f"no further process can be started: {reply['error']} (see ulimit -u)")
            if "pid" in reply:
                return reply["pid"], pidfd
        raise RoleLostError(f"the nursery (pid {self.pid}) did not start a process within {_REPLY_S:g} s")

    def pump(self) -> None:
        """Take in the reports that have come; sets ``lost``."""
        while self._poller.poll(0) and not self.lost:
            self._receive(0.0)

    def exit_of(self, pid: int, timeout_s: float) -> Exit | None:
        """How a dead process ended; None when that cannot be known."""
        end = time.monotonic() + timeout_s
        while pid not in self._exits and not self.lost and time.monotonic() < end:
            self._receive(end - time.monotonic())
        return self._exits.pop(pid, None)

    def _receive(self, timeout_s: float) -> tuple[dict[str, Any], int]:
        """One packet: a reply with a pidfd, or ``({}, -1)`` after a report, a hang-up or nothing."""
        if not self._poller.poll(max(0.0, timeout_s) * 1000):
            return {}, -1
        pidfd = -1
        try:
            data, ancillary, _, _ = self._connection.recvmsg(4096, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
        except ConnectionResetError:
            data, ancillary = b"", []
        for _, _, content in ancillary:
            (pidfd,) = array.array("i", content)
        if not data:
            self.lost = True
            return {}, -1
        packet = decode_body(data)
        if "exit" in packet:
            self._exits[packet["exit"]] = Exit(packet["status"], packet["cpu_s"])
            return {}, -1
        return packet, pidfd

    def close(self) -> None:
        """End the nursery, in bounded time."""
        self._connection.close()
        try:
            self._process.wait(2.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(2.0)


@contextlib.contextmanager
def stop_signals_blocked() -> Iterator[None]:
    """What is started here inherits the block, and lifts it once it has its own handlers: batch systems send SIGTERM
    to every process, and one that is still importing would die of it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def describe_exit(status: int) -> str:
    """``killed by SIGKILL`` or ``exited with code 3``."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        try:
            return f"killed by {signal.Signals(number).name}"
        except ValueError:
            return f"killed by signal {number}"
    return f"exited with code {os.waitstatus_to_exitcode(status)}"
