"""The driver's hold on the ranks: a line to rank 0 and, where the driver has started them, their launcher."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import whorl
from whorl.engines.contract import SUPERVISOR, RoleId
from whorl.engines.local.line import FrameSocket
from whorl.engines.mpi.finding import DRIVER, START_S, Mpi
from whorl.engines.mpi.orders import EVERYBODY
from whorl.engines.threads import thread_environ
from whorl.engines.wire import Envelope, decode_body, encode_body, encode_frame, envelope
from whorl.envs.launchers import without_launcher
from whorl.errors import RoleLostError

_KILL_S = 2.0
_FOLLOW = (
    "import ctypes, os, signal, sys; ctypes.CDLL(None).prctl(1, 15); "
    "[signal.signal(number, signal.SIG_IGN) for number in (signal.SIGUSR1, signal.SIGUSR2)]; "
    "os.getppid() == int(sys.argv[1]) or sys.exit(1); os.execv(sys.argv[2], sys.argv[2:])"
)
"""Becomes the launcher, which then gets SIGTERM when the driver dies, and does not die of a batch system's warnings."""


class World:
    """Ranks that wait for a plan."""

    def __init__(self, size: int, line: socket.socket, launcher: Launcher | None) -> None:
        self.size = size
        self.frames = FrameSocket(line)
        self.launcher = launcher
        self.nodes: dict[int, str] = {}
        self.aside: list[tuple[Envelope, bytes]] = []
        """What has come and waits for somebody to see to it."""

    def send(self, to: RoleId, kind: str, body: dict[str, Any] | None = None) -> None:
        """An order."""
        self.frames.send(encode_frame(envelope(SUPERVISOR, to, kind, control=True), encode_body(body)))

    def tell_all(self, kind: str, body: dict[str, Any] | None = None) -> None:
        """An order to every rank."""
        self.send(EVERYBODY, kind, body)

    def receive(self, timeout_s: float) -> list[tuple[Envelope, bytes]]:
        """What has come from rank 0."""
        poller = select.poll()
        poller.register(self.frames.fileno(), select.POLLIN | (select.POLLOUT if self.frames.outgoing_bytes else 0))
        poller.poll(0.0 if self.aside else max(0.0, timeout_s) * 1000)
        self.frames.flush()
        return self.received()

    def received(self) -> list[tuple[Envelope, bytes]]:
        """What is there already."""
        found, self.aside = [*self.aside, *self.frames.receive()], []
        return found

    def meet(self, kind: str, timeout_s: float) -> Iterator[dict[str, Any]]:
        """What each rank says of this kind, as it comes; ``RoleLostError`` when not all of them do."""
        missing, end = set(range(self.size)), time.monotonic() + timeout_s
        while missing:
            for head, data in self.receive(min(0.2, end - time.monotonic())):
                if head.control and head.kind == kind:
                    body = decode_body(data)
                    missing.discard(body["rank"])
                    yield body
            if missing and self.is_over:
                said = self.launcher.said() if self.launcher is not None else ""
                raise RoleLostError(f"the MPI job ended before it had begun{said and ': '}{said}")
            if missing and time.monotonic() > end:
                raise RoleLostError(f"rank {min(missing)} did not say {kind!r} within {timeout_s:g} s")

    def clear(self, left: int) -> None:
        """Have the ranks give back what they had for a plan. Those that are left say who they are before the next."""
        self.size, self.nodes = left, {}
        self.tell_all("clear")

    @property
    def is_over(self) -> bool:
        """Nobody is there any more."""
        return self.frames.hung_up or (self.launcher is not None and self.launcher.has_ended)

    def close(self) -> None:
        self.frames.close()
        if self.launcher is not None:
            self.launcher.end()


class Launcher:
    """An ``mpiexec`` of our own."""

    def __init__(self, mpi: Mpi, size: int, address: str) -> None:
        self._output = os.memfd_create("whorl-mpiexec", os.MFD_CLOEXEC)
        package_root = str(Path(whorl.__file__).parent.parent)
        environ = without_launcher(dict(os.environ)) | mpi.environ
        environ |= thread_environ(1)
        environ["PYTHONPATH"] = os.pathsep.join(filter(None, (package_root, environ.get("PYTHONPATH", ""))))
        program = [sys.executable, "-m", "whorl.engines.mpi.rank", address]
        command = [*mpi.command, "-n", str(size), *program]
        if threading.current_thread() is threading.main_thread():  # the kernel's "parent" is a thread
            command = [sys.executable, "-I", "-S", "-c", _FOLLOW, str(os.getpid()), *command]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
            env=environ,
            start_new_session=True,
        )
        self.pidfd = os.pidfd_open(self._process.pid)

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def text(self) -> str:
        """All that it has printed."""
        return os.pread(self._output, 1 << 20, 0).decode(errors="replace")

    def said(self) -> str:
        """The last line that it or a rank has printed, for want of anything better."""
        lines = [line.strip(" =-*") for line in self.text().splitlines()]
        return next((line for line in reversed(lines) if len(line) > 3), "")[:300]

    def end(self) -> None:
        """TERM and a while, KILL and a while."""
        for number in (None, signal.SIGTERM, signal.SIGKILL):
            if number is not None:
                with contextlib.suppress(ProcessLookupError):
                    self._process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_KILL_S)
                break
        os.close(self.pidfd)
        os.close(self._output)


def start_world(mpi: Mpi, size: int) -> World:
    """Have ranks started on this machine (or on the nodes of the allocation that ``mpiexec`` finds itself in)."""
    folder = tempfile.mkdtemp(prefix="whorl-mpi-")
    launcher: Launcher | None = None
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as door:
            address = str(Path(folder, "line"))
            door.bind(address)
            door.listen(1)
            launcher = Launcher(mpi, size, address)
            line = _accept(door, launcher)
    except BaseException:
        if launcher is not None:
            launcher.end()
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return World(size, line, launcher)


def _accept(door: socket.socket, launcher: Launcher) -> socket.socket:
    """Rank 0's line."""
    poller = select.poll()
    poller.register(door.fileno(), select.POLLIN)
    poller.register(launcher.pidfd, select.POLLIN)
    ready = {descriptor for descriptor, _ in poller.poll(START_S * 1000)}
    if door.fileno() in ready:
        return door.accept()[0]
    if launcher.has_ended:
        raise RoleLostError(f"the MPI job did not start: {launcher.said()}")
    raise RoleLostError(f"the MPI job did not start within {START_S:g} s: {launcher.said()}")


_inherited: World | None = None


def inherited_world() -> World | None:
    """The ranks that a launcher has started, of which this process is the driver; the same each time."""
    global _inherited
    told = os.environ.get(DRIVER, "")
    if _inherited is None and told:
        descriptor, size = map(int, told.split(":"))
        _inherited = World(size, socket.socket(fileno=descriptor), None)
    return _inherited
