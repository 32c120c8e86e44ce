"""The driver's side of its envoy: start it, exchange frames with it, end it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

import whorl
from whorl.engines.contract import SUPERVISOR, RoleId
from whorl.engines.local.line import FrameSocket
from whorl.engines.local.spawner import stop_signals_blocked
from whorl.engines.ray.emissary import ENVOY
from whorl.engines.waking import WakePipe
from whorl.engines.wire import Envelope, decode_body, encode_body, encode_frame, envelope
from whorl.errors import BadInputError, RoleLostError

END_S = 10.0

Frame = tuple[Envelope, bytes]


class Link:
    """Owns an envoy."""

    def __init__(
        self, setup: dict[str, Any], log_path: str, wake: WakePipe, module: str = "whorl.engines.ray.envoy"
    ) -> None:
        """``wake`` cuts the sleep of ``receive`` short; ``module`` is what the child runs."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        package_root = str(Path(whorl.__file__).parent.parent)
        search = os.pathsep.join(filter(None, (package_root, os.environ.get("PYTHONPATH", ""))))
        log = open(log_path, "ab") if log_path else subprocess.DEVNULL  # noqa: PTH123, SIM115
        try:
            with theirs, stop_signals_blocked():
                self._process = subprocess.Popen(
                    [sys.executable, "-m", module, str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, "PYTHONPATH": search},
                    start_new_session=True,
                )
        finally:
            if not isinstance(log, int):
                log.close()
        first = encode_body(setup)
        ours.sendall(len(first).to_bytes(8, "little") + first)
        self._frames = FrameSocket(ours)
        self._poller = select.poll()
        self._poller.register(ours.fileno(), select.POLLIN)
        self._wake = wake
        self._poller.register(wake.fileno(), select.POLLIN)
        self.pending: deque[Frame] = deque()
        """What has come and was not seen to yet."""

    @property
    def lost(self) -> bool:
        """The envoy is gone."""
        return self._frames.hung_up

    @property
    def pid(self) -> int:
        return self._process.pid

    def fileno(self) -> int:
        return self._frames.fileno()

    def order(self, kind: str, body: dict[str, Any], to: RoleId = ENVOY) -> None:
        """Something for the envoy, or for a station, to do."""
        self.send(envelope(SUPERVISOR, to, kind, control=True), encode_body(body))

    def send(self, head: Envelope, body: bytes) -> None:
        """A frame to be passed on."""
        self._frames.send(encode_frame(head, body))

    def receive(self, timeout_s: float) -> bool:
        """Wait for frames, at most so long; True when some came."""
        if self.lost:
            return False
        events = select.POLLIN | (select.POLLOUT if self._frames.outgoing_bytes else 0)
        self._poller.modify(self._frames.fileno(), events)
        self._poller.poll(max(0.0, timeout_s) * 1000)
        self._wake.drain()
        self._frames.flush()
        before = len(self.pending)
        self.pending.extend(self._frames.receive())
        return len(self.pending) > before

    def expect(self, kind: str, timeout_s: float) -> dict[str, Any]:
        """The envoy's next words, which are these, or a refusal."""
        end = time.monotonic() + timeout_s
        while not self.pending and not self.lost and time.monotonic() < end:
            self.receive(end - time.monotonic())
        if not self.pending:
            how = "it ended" if self.lost else f"no answer within {timeout_s:g} s"
            raise RoleLostError(f"Ray could not be reached: {how}")
        head, body = self.pending.popleft()
        words = decode_body(body)
        if head.kind != kind:
            raise BadInputError(f"Ray could not be reached: {words.get('text', head.kind)}")
        return words

    def close(self) -> None:
        """End the envoy and whatever it started, in bounded time."""
        if not self.lost:
            self.order("close", {})
            end = time.monotonic() + END_S
            while not self.lost and time.monotonic() < end:
                self.receive(end - time.monotonic())
        self._frames.close()
        try:
            self._process.wait(2.0)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(2.0)
