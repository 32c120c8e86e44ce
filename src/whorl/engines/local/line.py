"""Lines over stream sockets. Sending never blocks: what the kernel does not take waits in a buffer of our own."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Generator, Mapping
from typing import Any

from whorl.engines import waits
from whorl.engines.contract import SUPERVISOR, Endpoint, Message, RoleId, Wait
from whorl.engines.local.polling import FdEndpoint
from whorl.engines.local.status import StatusClock
from whorl.engines.wire import Envelope, FrameReader, decode_body, encode_body, encode_frame, envelope

_CHUNK_BYTES = 256 * 1024


class FrameSocket:
    """Frames in and out of a non-blocking stream socket."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._reader = FrameReader()
        self._outgoing: deque[memoryview] = deque()
        self.outgoing_bytes = 0
        self.hung_up = False

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, frame: bytes) -> None:
        """Send now what the kernel takes; ``flush`` later sends the rest."""
        self._outgoing.append(memoryview(frame))
        self.outgoing_bytes += len(frame)
        self.flush()

    def flush(self) -> None:
        """Send what is waiting, as far as it goes."""
        try:
            while self._outgoing:
                sent = self._socket.send(self._outgoing[0])
                self.outgoing_bytes -= sent
                if sent < len(self._outgoing[0]):
                    self._outgoing[0] = self._outgoing[0][sent:]
                else:
                    self._outgoing.popleft()
        except BlockingIOError:
            return
        except (BrokenPipeError, ConnectionResetError):
            self.hung_up = True
            self._outgoing.clear()
            self.outgoing_bytes = 0

    def receive(self) -> list[tuple[Envelope, bytes]]:
        """All frames that have come."""
        frames: list[tuple[Envelope, bytes]] = []
        while not self.hung_up:
            try:
                data = self._socket.recv(_CHUNK_BYTES)
            except BlockingIOError:
                break
            except ConnectionResetError:
                data = b""
            if data:
                frames.extend(self._reader.feed(data))
                if len(data) < _CHUNK_BYTES // 2:
                    break
            else:
                self.hung_up = True
        return frames

    def close(self) -> None:
        self._socket.close()


class RoleLine:
    """A role's end of its line. Answers the supervisor's pings by itself."""

    def __init__(self, owner: RoleId, connection: socket.socket, clock: StatusClock) -> None:
        self.frames = FrameSocket(connection)
        self._owner = owner
        self._clock = clock
        self._inbox: deque[tuple[Envelope, bytes]] = deque()
        self._readable = FdEndpoint(connection.fileno(), self._has_message)

    def send(self, kind: str, body: Mapping[str, Any] | None = None, to: RoleId = SUPERVISOR) -> None:
        self._send(envelope(self._owner, to, kind), body)

    def send_control(self, kind: str, body: Mapping[str, Any] | None = None) -> None:
        """A frame for the supervisor's loop, which no observer sees."""
        self._send(envelope(self._owner, SUPERVISOR, kind, control=True), body)

    def _send(self, head: Envelope, body: Mapping[str, Any] | None) -> None:
        frame = encode_frame(head, encode_body(body))
        self.frames.send(frame)
        self._clock.count_sent(len(frame))

    def pump(self) -> None:
        """Take in what has come."""
        for head, body in self.frames.receive():
            if not head.control:
                self._inbox.append((head, body))
            elif head.kind == "ping":
                self.send_control("pong")

    def try_receive(self) -> Message | None:
        if not self._inbox:
            self.pump()
            if not self._inbox:
                return None
        head, body = self._inbox.popleft()
        return Message(head.sender_id, head.kind, decode_body(body))

    def _has_message(self) -> bool:
        if not self._inbox:
            self.pump()
        return bool(self._inbox)

    def expect(self, kind: str) -> Generator[Wait, None, Message]:
        return waits.expect_message(self, self._owner, kind)

    @property
    def readable(self) -> Endpoint:
        return self._readable
