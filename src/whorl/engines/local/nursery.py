"""The nursery: a small single-threaded process that forks roles.

A fork of the driver would copy its threads' locks and torch's state; a fresh interpreter costs half a second each. The
nursery imports numpy, gymnasium and the roles' light modules once, never torch and never the user's ``__main__`` (so
scripts need no ``if __name__ == "__main__"`` guard), and forks in milliseconds.

It dies with the driver (its socket ends, or the driver's pidfd fires), and every role dies with it
(``PR_SET_PDEATHSIG``). Each role leads a session of its own; what it leaves running when it dies is killed with it.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import importlib
import io
import os
import select
import signal
import socket
import sys
import zlib
from types import FrameType
from typing import Any, NoReturn

from whorl.engines.local.parcels import receive_parcel
from whorl.engines.wire import decode_body, encode_body

ALWAYS_PRELOADED = ("numpy", "gymnasium", "whorl.types", "whorl.errors", "whorl.engines.local.rolemain")

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""Batch systems and terminals send them to everybody; the driver alone decides. The nursery is started with them
blocked."""

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent(parent: int) -> None:
    """SIGKILL to this process when its parent dies; at once when that has happened already."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


class Nursery:
    """Serves one driver."""

    def __init__(self, connection: socket.socket, driver: int) -> None:
        self._pid = os.getpid()
        self._connection = connection
        self._driver = os.pidfd_open(driver)
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._children: set[int] = set()

    def prepare(self) -> None:
        """Take over the driver's environment and import what roles share."""
        payload, _ = receive_parcel(self._connection)
        setup = decode_body(payload)
        sys.path[:] = [os.fsdecode(path) for path in setup["sys_path"]]
        os.environ.clear()
        os.environb.update(setup["environ"])
        for module in (*ALWAYS_PRELOADED, *setup["preload"]):
            with contextlib.suppress(Exception):  # the role that needs it reports it
                importlib.import_module(module)
        gc.collect()
        gc.freeze()

    def serve(self) -> None:
        """Fork on request and report deaths, until the driver is gone."""
        signal.signal(signal.SIGCHLD, _ignore)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        poller = select.poll()
        for descriptor in (self._connection.fileno(), self._driver, self._wake_read):
            poller.register(descriptor, select.POLLIN)
        try:
            while True:
                ready = {descriptor for descriptor, _ in poller.poll()}
                if self._driver in ready:
                    return
                if self._wake_read in ready:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._wake_read, 4096)
                    self._reap()
                if self._connection.fileno() in ready:
                    payload, descriptors = receive_parcel(self._connection)
                    self._fork(decode_body(payload), descriptors)
        except (EOFError, ConnectionError):
            return
        finally:
            for child in self._children:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child, signal.SIGKILL)

    def _reap(self) -> None:
        while self._children:
            try:
                dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if dead is None:
                return
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(dead.si_pid, signal.SIGKILL)  # before the pid is given up
            pid, status, usage = os.wait4(dead.si_pid, 0)
            self._children.discard(pid)
            report = {"exit": pid, "status": status, "cpu_s": usage.ru_utime + usage.ru_stime}
            self._connection.send(encode_body(report))

    def _fork(self, request: dict[str, Any], descriptors: list[int]) -> None:
        try:
            pid = os.fork()
        except OSError as error:
            self._connection.send(encode_body({"error": error.strerror}))
            _close(descriptors)
            return
        if pid == 0:
            self._be_a_role(request, descriptors)
        self._children.add(pid)
        _close(descriptors)
        pidfd = os.pidfd_open(pid)
        try:
            socket.send_fds(self._connection, [encode_body({"pid": pid})], [pidfd])
        finally:
            os.close(pidfd)

    def _be_a_role(self, request: dict[str, Any], descriptors: list[int]) -> NoReturn:
        """The child's side of a fork. Never returns, whatever happens."""
        code = 1
        try:
            die_with_parent(self._pid)
            os.setsid()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._connection.close()
            _close([self._driver, self._wake_read, self._wake_write])
            redirect_output(request["log_path"])
            for stream in (sys.stdout, sys.stderr):  # what is printed must survive a SIGKILL
                if isinstance(stream, io.TextIOWrapper):
                    stream.reconfigure(line_buffering=True)
            faulthandler.enable()
            os.environ.update(request["environ"])
            kind, index = request["role"]
            _libc.prctl(_PR_SET_NAME, f"{kind}-{index}".encode())  # what `ps` and `top` show
            seed_global_generators(f"{request['role']}")
            from whorl.engines.local.rolemain import run_role

            code = run_role(request, descriptors)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)


def _ignore(_signal: int, _frame: FrameType | None) -> None:
    """A handler that does nothing: the wake-up descriptor does."""


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def redirect_output(log_path: str) -> None:
    """Input from nowhere; output to the role's log, or to the driver's standard error."""
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    try:
        log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) if log_path else os.dup(2)
    except OSError:  # a full disk, or somebody removed the folder: no reason to die
        log = os.dup(2)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)


def seed_global_generators(role: str) -> None:
    """Forks share the state of the global generators: without this, environments that use them would all draw alike."""
    import random

    import numpy as np

    seed = zlib.crc32(role.encode())
    random.seed(seed)
    np.random.seed(seed)


def main() -> None:
    """``python -m whorl.engines.local.nursery DESCRIPTOR DRIVER_PID MAIN_THREAD``."""
    descriptor, driver, from_main_thread = (int(text) for text in sys.argv[1:4])
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    if from_main_thread:  # the kernel's "parent" is a thread, and another one than the main thread may end early
        die_with_parent(driver)
    nursery = Nursery(socket.socket(fileno=descriptor), driver)
    with contextlib.suppress(EOFError, ConnectionError):
        nursery.prepare()
        nursery.serve()


if __name__ == "__main__":
    main()
