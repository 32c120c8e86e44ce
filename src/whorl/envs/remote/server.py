"""A server of environments: one ROUTER socket, one loop, and whatever comes in is answered, refused or dropped.

    whorl env serve CartPole-v1 --bind tcp://127.0.0.1:5555 --copies 16

Environments live in this process and are stepped one after the other; more servers give more at once.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from whorl.config.schema import EnvConfig
from whorl.envs.remote.address import check_address, check_socket_folder, is_private, require_zmq
from whorl.envs.remote.copies import CopyPool
from whorl.envs.remote.keys import allowed_clients, server_secret
from whorl.envs.remote.layout import answer_fields, largest_frame_bytes, request_fields
from whorl.envs.remote.messages import (
    ANSWER_HEADER_BYTES,
    REQUEST_HEADER_BYTES,
    Advance,
    Bye,
    Hello,
    Malformed,
    Ping,
    Pong,
    decode_request,
    encode,
)
from whorl.envs.remote.sessions import Parts, Session, Sessions
from whorl.errors import EXIT_FAILED, BadInputError, last_line

QUEUED_MESSAGES = 64
"""Of one client, in each direction; more are dropped, and the client asks again."""
MOST_FRAMES = 8
"""A request has five with its route; a message of more is not read on."""
GONE_S = 5.0
"""A session whose connection has ended may be freed after so long, when its copies are needed."""
HANDSHAKE_S = 10.0


class EnvServer:
    """Serves copies of an environment until it is told to stop.

    with EnvServer(EnvConfig(id="CartPole-v1"), "tcp://127.0.0.1:5555", copies=16) as server:
        print(server.address)
        server.run()
    """

    def __init__(
        self, config: EnvConfig, bind: str, copies: int, keys: Path | None = None, insecure: bool = False,
        idle_s: float = 300.0,
    ) -> None:  # fmt: skip
        zmq = self._zmq = require_zmq("whorl env serve")
        check_address(bind)
        if keys is None and not insecure and not is_private(bind):
            raise BadInputError(
                f"{bind} can be reached from other machines: make keys with `whorl env keys DIR` and serve with "
                "--keys DIR (or say --insecure, and anybody may step this environment)"
            )
        secret, clients = (server_secret(keys), allowed_clients(keys)) if keys is not None else (b"", frozenset())
        if bind.startswith("ipc://"):
            check_socket_folder(bind)
        self._sessions = Sessions(CopyPool(config, copies))
        self._idle_s = idle_s
        self._stopping = False
        self._wake_reader, self._wake_writer = socket.socketpair()
        for end in (self._wake_reader, self._wake_writer):
            end.setblocking(False)
        self._context: Any = zmq.Context()
        self._guard = self._start_guard(clients) if keys is not None else None
        try:
            self._socket: Any = self._bind(bind, secret, self._largest_request_bytes(copies))
        except BaseException:
            self.close()
            raise
        self.address: str = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)

    def __enter__(self) -> EnvServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def counts(self) -> dict[str, int]:
        """What has come so far."""
        return self._sessions.counts

    def run(self) -> None:
        """Answer until ``stop``."""
        zmq = self._zmq
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(self._wake_reader, zmq.POLLIN)
        while not self._stopping:
            ready = dict(poller.poll())
            if self._wake_reader.fileno() in ready:
                self._wake_reader.recv(4096)
            if self._socket in ready:
                self._serve_one()

    def stop(self) -> None:
        """End ``run`` after what is being performed; from a signal handler or another thread, too."""
        self._stopping = True
        with contextlib.suppress(OSError):
            self._wake_writer.send(b"\0")

    @contextlib.contextmanager
    def stopping_by_signals(self) -> Iterator[None]:
        """SIGTERM and SIGINT stop it cleanly; a second one at once, for an environment that does not come back."""

        def handle(number: int, _: object) -> None:
            if self._stopping:
                os._exit(EXIT_FAILED if number == signal.SIGTERM else 128 + number)
            self.stop()

        before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
        # A signal that comes just before the loop begins to wait must wake it, too: Python's handlers run after waits.
        woken = signal.set_wakeup_fd(self._wake_writer.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(woken)
            for number, handler in before.items():
                signal.signal(number, handler)

    def close(self) -> None:
        """Close the socket and every environment."""
        if self._guard is not None:
            self._guard.stop()
            self._guard = None
        self._context.destroy(linger=200)
        self._sessions.close()
        self._wake_reader.close()
        self._wake_writer.close()

    def _largest_request_bytes(self, copies: int) -> int:
        """So much may one frame hold; and refuse at the start what no client could take."""
        spec = self._sessions.wire_spec
        try:
            largest_frame_bytes(answer_fields(spec, self._sessions.most_lanes))
            largest = largest_frame_bytes(request_fields(spec, self._sessions.most_lanes))
        except Malformed as reason:
            raise BadInputError(f"{reason}: serve fewer than {copies} copies, on more servers") from None
        if self._sessions.welcome_bytes() > ANSWER_HEADER_BYTES:
            raise BadInputError(f"{self._sessions.pool.config.id}: its spaces have too many bounds to tell them")
        return max(largest, REQUEST_HEADER_BYTES)

    def _start_guard(self, clients: frozenset[bytes]) -> Any:
        """A thread that lets in clients with a known key only."""
        from zmq.auth.thread import ThreadAuthenticator

        class Known:
            def callback(self, _domain: str, key: bytes) -> bool:
                return key in clients

        guard = ThreadAuthenticator(self._context)
        guard.start()
        guard.configure_curve_callback(domain="*", credentials_provider=Known())
        return guard

    def _bind(self, address: str, secret: bytes, most_bytes: int) -> Any:
        zmq = self._zmq
        router = self._context.socket(zmq.ROUTER)
        router.setsockopt(zmq.LINGER, 200)
        router.setsockopt(zmq.MAXMSGSIZE, most_bytes)
        router.setsockopt(zmq.RCVHWM, QUEUED_MESSAGES)
        router.setsockopt(zmq.SNDHWM, QUEUED_MESSAGES)
        router.setsockopt(zmq.HANDSHAKE_IVL, int(HANDSHAKE_S * 1000))
        router.setsockopt(zmq.ROUTER_MANDATORY, 1)  # a client that is gone is noticed when it is written to
        router.setsockopt(zmq.IPV6, int("[" in address))
        if secret:
            router.curve_server = True
            router.curve_secretkey, router.curve_publickey = secret, zmq.curve_public(secret)
        before = os.umask(0o077)
        try:
            router.bind(address)
        except zmq.ZMQError as error:
            raise BadInputError(f"{address} cannot be bound: {error}; use another port, or end who has it") from None
        finally:
            os.umask(before)
        return router

    def _serve_one(self) -> None:
        """One message in, at most one out."""
        zmq = self._zmq
        parts: list[bytes] = []
        try:
            parts.append(self._socket.recv(zmq.NOBLOCK))
            while self._socket.getsockopt(zmq.RCVMORE):
                part = self._socket.recv(zmq.NOBLOCK)
                if len(parts) <= MOST_FRAMES:
                    parts.append(part)
        except zmq.Again:
            return
        if not 2 <= len(parts) <= MOST_FRAMES:
            self.counts["dropped"] += 1
            return
        route, header, *frames = parts
        try:
            answer = self._answer(header, frames, route)
        except Exception as error:  # a fault of ours: whatever came, the others must be served
            self.counts["dropped"] += 1
            print(f"whorl: a message was dropped: {last_line(error)}", file=sys.stderr, flush=True)
            return
        self._send(route, answer)

    def _answer(self, header: bytes, frames: list[bytes], route: bytes) -> Parts:
        """What to say to a message; nothing when it is none."""
        try:
            request = decode_request(header)
        except Malformed as error:
            if error.version not in (None, 1):
                return [encode(self._sessions.refuse_version(int(error.version or 0)))]
            self.counts["dropped"] += 1
            return []
        if isinstance(request, Advance):
            return self._sessions.advance(request, frames, route)
        if frames:
            self.counts["dropped"] += 1
            return []
        if isinstance(request, Hello):
            self._make_room(request)
            return [encode(self._sessions.welcome(request, route))]
        if isinstance(request, Ping):
            return [encode(Pong(number=request.number, epoch=self._sessions.epoch, counts=self.counts))]
        assert isinstance(request, Bye)
        self._sessions.bye(request)
        return []

    def _make_room(self, hello: Hello) -> None:
        """Free sessions nobody uses, as far as that is needed: first those whose connection has ended."""
        sessions, now_s = self._sessions, time.monotonic()
        if hello.lanes > sessions.most_lanes or any(one.client == hello.client for one in sessions.idle()):
            return
        for session in sessions.idle():
            if hello.lanes <= sessions.pool.free:
                return
            silent_s = now_s - session.seen_s
            if silent_s > self._idle_s or (silent_s > GONE_S and self._is_gone(session, now_s)):
                sessions.free(session)

    def _is_gone(self, session: Session, now_s: float) -> bool:
        """Whether nothing can be sent there any more; clients drop answers that they did not ask for."""
        if now_s - session.probed_s < GONE_S / 5:
            return False
        session.probed_s = now_s
        pong = Pong(number=0, epoch=self._sessions.epoch, counts={})
        return not self._send(session.route, [encode(pong)])

    def _send(self, route: bytes, parts: Parts) -> bool:
        """Send without waiting; False when there is no such client. One that does not read loses messages."""
        zmq = self._zmq
        if not parts:
            return True
        try:
            self._socket.send_multipart([route, *parts], zmq.NOBLOCK)
        except zmq.Again:
            return True
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            return False
        return True


def allow_many_descriptors() -> None:
    """Each connection takes one: strangers must not use up those of a low limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard != resource.RLIM_INFINITY else max(soft, 65536), hard))
