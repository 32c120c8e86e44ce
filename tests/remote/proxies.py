"""Bad networks between a client and a server: one that spoils bytes, one that spoils messages."""

from __future__ import annotations

import contextlib
import random
import select
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import zmq


class ByteProxy:
    """Forwards TCP connections to a port. ``spoil(chunk)`` says what becomes of each piece: the pieces to send on, with
    pauses in seconds between them; ``None`` at the end resets the connection."""

    def __init__(
        self, address: str, spoil: Callable[[bytes], list[bytes | float | None]] = lambda chunk: [chunk]
    ) -> None:
        self._target = ("127.0.0.1", int(address.rpartition(":")[2]))
        self.spoil, self.is_cut = spoil, False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._is_over = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def reset_all(self) -> None:
        """Every connection breaks."""
        for one in list(self._pairs):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._is_over = True
        self._thread.join()
        for one in [self._listener, *self._pairs]:
            one.close()

    def __enter__(self) -> ByteProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        while not self._is_over:
            if self.is_cut:
                time.sleep(0.02)
                continue
            ready, _, _ = select.select([self._listener, *self._pairs], [], [], 0.05)
            for one in ready:
                if one is self._listener:
                    self._accept()
                elif one in self._pairs:
                    self._forward(one)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        try:
            server = socket.create_connection(self._target, 1)
        except OSError:
            client.close()
            return
        self._pairs[client], self._pairs[server] = server, client

    def _forward(self, one: socket.socket) -> None:
        other = self._pairs[one]
        try:
            chunk = one.recv(65536)
            if not chunk:
                raise ConnectionError
            for piece in self.spoil(chunk):
                if piece is None:
                    raise ConnectionError
                if isinstance(piece, bytes):
                    other.sendall(piece)
                else:
                    time.sleep(piece)
        except OSError:
            for end in (one, other):
                self._pairs.pop(end, None)
                end.close()


class MessageProxy:
    """Forwards ZeroMQ messages, each as often and as late as chance has it: lost, once, or several times."""

    def __init__(self, address: str, seed: int, lost: float, doubled: float, late: float) -> None:
        self._address, self._random = address, random.Random(seed)
        self._lost, self._doubled, self._late = lost, doubled, late
        self._context = zmq.Context()
        self._front = self._context.socket(zmq.ROUTER)
        self.address = f"tcp://127.0.0.1:{self._front.bind_to_random_port('tcp://127.0.0.1')}"
        self._backs: dict[bytes, Any] = {}
        self._held: list[tuple[float, Any, list[bytes]]] = []
        self.counts = {"lost": 0, "doubled": 0, "late": 0}
        self._is_over = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def __enter__(self) -> MessageProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._thread.join()
        self._context.destroy(linger=0)

    def _run(self) -> None:
        poller = zmq.Poller()
        poller.register(self._front, zmq.POLLIN)
        while not self._is_over:
            for ready, _ in poller.poll(10):
                parts = ready.recv_multipart()
                if ready is self._front:
                    route, *parts = parts
                    if route not in self._backs:
                        self._backs[route] = back = self._context.socket(zmq.DEALER)
                        back.connect(self._address)
                        poller.register(back, zmq.POLLIN)
                    self._spoil(self._backs[route], parts)
                else:
                    route = next(route for route, back in self._backs.items() if back is ready)
                    self._spoil(self._front, [route, *parts])
            now_s = time.monotonic()
            for held in [held for held in self._held if held[0] <= now_s]:
                self._held.remove(held)
                held[1].send_multipart(held[2])

    def _spoil(self, towards: Any, parts: list[bytes]) -> None:
        if self._random.random() < self._lost:
            self.counts["lost"] += 1
            return
        towards.send_multipart(parts)
        if self._random.random() < self._doubled:
            self.counts["doubled"] += 1
            towards.send_multipart(parts)
        if self._random.random() < self._late:
            self.counts["late"] += 1
            self._held.append((time.monotonic() + self._random.uniform(0, 0.2), towards, parts))
