"""A child process of a driver that speaks to Ray for it.

Ray wants a process to itself: it starts threads, handles signals and reads its settings from the environment. The
driver may be the user's own script. So a child connects, obeys orders that come through a socket, says what becomes of
them, and ends with the driver. ``link`` is the driver's side.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
from abc import ABC, abstractmethod
from typing import Any

from whorl.engines.contract import SUPERVISOR, RoleId
from whorl.engines.local.line import FrameSocket
from whorl.engines.local.nursery import STOP_SIGNALS
from whorl.engines.ray import private
from whorl.engines.wire import Envelope, decode_body, encode_body, encode_frame, envelope

ENVOY = RoleId("envoy", 0)
LAST_S = 10.0
"""From the driver's end to ours, come what may."""


class Emissary(ABC):
    """Serves one driver."""

    def __init__(self, connection: socket.socket) -> None:
        self._link = FrameSocket(connection)
        self._done = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    @abstractmethod
    def obey(self, kind: str, body: dict[str, Any]) -> None:
        """An order of the driver."""

    def pass_on(self, head: Envelope, body: bytes) -> None:
        """A frame that is for somebody behind us."""
        raise NotImplementedError

    @abstractmethod
    async def close(self) -> None:
        """End whatever was begun, in bounded time."""

    async def serve(self) -> None:
        """Until the driver says so, or is gone."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._link.fileno(), self._read)
        await self._done.wait()
        loop.remove_reader(self._link.fileno())
        await self.close()
        for task in self._tasks:
            task.cancel()

    @property
    def done(self) -> bool:
        """It is over: whatever ends from now on ends because of that."""
        return self._done.is_set()

    def say(self, kind: str, body: dict[str, Any]) -> None:
        """Something for the driver."""
        self.forward(encode_frame(envelope(ENVOY, SUPERVISOR, kind, control=True), encode_body(body)))

    def forward(self, frames: bytes) -> None:
        """Frames for the driver, from somebody behind us."""
        self._link.send(frames)
        if self._link.outgoing_bytes:
            asyncio.get_running_loop().add_writer(self._link.fileno(), self._flush)

    def spawn(self, work: Any) -> None:
        """Work that goes on beside."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _flush(self) -> None:
        self._link.flush()
        if not self._link.outgoing_bytes:
            asyncio.get_running_loop().remove_writer(self._link.fileno())

    def _read(self) -> None:
        for head, body in self._link.receive():
            if head.to_id != ENVOY:
                self.pass_on(head, body)
            elif head.kind == "close":
                self._done.set()
            else:
                self.obey(head.kind, decode_body(body))
        if self._link.hung_up:
            self._done.set()
            last = threading.Timer(LAST_S, os._exit, (1,))
            last.daemon = True
            last.start()


async def _run(emissary: Emissary, setup: dict[str, Any]) -> None:
    cluster: private.PrivateCluster | None = None
    try:
        if setup["address"]:
            private.set_environment(setup["token_file"])
            has = private.connect(setup["address"], setup["namespace"])
        else:
            cluster = private.PrivateCluster()
            has = cluster.start(setup["needed"], setup["namespace"])
        nodes = private.of_each_node()
    except Exception as error:
        if cluster is not None:
            cluster.end()
        emissary.say("refused", {"text": private.in_one_line(error)})
        return
    _ignore_stop_signals()  # again: Ray has put in a handler of its own, which ends the process
    emissary.say("ready", {"has": has, "nodes": nodes})
    try:
        await emissary.serve()
    finally:
        if cluster is not None:
            cluster.end()


def main(kind: type[Emissary]) -> None:
    """``python -m MODULE DESCRIPTOR``.

    It ends when the driver does, which its socket tells: a SIGKILL by the kernel would leave it no time to end what it
    has started.
    """
    descriptor = int(sys.argv[1])
    _ignore_stop_signals()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    connection = socket.socket(fileno=descriptor)
    emissary = kind(connection)
    connection.setblocking(True)
    setup = _first_frame(connection)
    connection.setblocking(False)
    sys.path[:] = [os.fsdecode(path) for path in setup["sys_path"]]
    asyncio.run(_run(emissary, setup))
    os._exit(0)  # Ray's threads have nothing left to say


def _ignore_stop_signals() -> None:
    """A batch system sends them to every process of a job; the driver alone decides."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _first_frame(connection: socket.socket) -> dict[str, Any]:
    """The setup: its length in 8 bytes, then itself."""
    size = int.from_bytes(_exactly(connection, 8), "little")
    return decode_body(_exactly(connection, size))


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            os._exit(1)
        data += chunk
    return bytes(data)
