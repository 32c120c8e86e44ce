"""A client's side of the wire: ask, wait, ask again over a fresh socket, and give up when patience ends.

A request that is sent again is the same bytes with the same number, which a server performs once; an answer to
anything but the request under way is dropped.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from whorl.envs.remote.address import check_address, require_zmq
from whorl.envs.remote.keys import client_keys
from whorl.envs.remote.layout import answer_fields, largest_frame_bytes, pack, request_fields, unpack
from whorl.envs.remote.messages import (
    ANSWER_HEADER_BYTES,
    Advance,
    Advanced,
    Answer,
    Bye,
    Hello,
    Lost,
    Malformed,
    Refused,
    Welcome,
    decode_answer,
    encode,
)
from whorl.errors import EnvironmentFault
from whorl.types import Arrays

PATIENCE_S = 90.0
KEYS_VARIABLE = "WHORL_KEYS"
_FIRST_ATTEMPT_S, _LONGEST_ATTEMPT_S = 2.0, 15.0
_BUSY_PAUSE_S = 0.2


class ServerGone(EnvironmentFault):
    """Nobody answered for as long as patience lasts, or the answer can never be used."""


class SessionLost(Exception):
    """The server does not know this session: it was restarted, or has given the copies away."""


class Connection:
    """One session with a server, from ``open`` to ``close``; ``open`` again begins another."""

    welcome: Welcome

    def __init__(self, address: str, keys: str = "", patience_s: float = PATIENCE_S) -> None:
        self._zmq = require_zmq(address)
        check_address(address)
        self.address, self.patience_s = address, patience_s
        folder = keys or os.environ.get(KEYS_VARIABLE, "")
        self._keys, self._folder = client_keys(Path(folder)) if folder else None, folder
        self._context: Any = self._zmq.Context()
        self._socket: Any = None
        self._most_bytes = ANSWER_HEADER_BYTES
        self._number, self._is_open = 0, False
        self._slowest_s = 0.0

    def open(self, lanes: int) -> Welcome:
        """Ask for copies until there are some; the server may be busy, or still starting."""
        hello = Hello(client=secrets.token_bytes(16), lanes=lanes)
        stop_s = time.monotonic() + self.patience_s
        while True:
            answer, _ = self._exchange([encode(hello)], lambda said: _answers_hello(said, hello), stop_s)
            if isinstance(answer, Welcome):
                break
            assert isinstance(answer, Refused)
            if not answer.busy or time.monotonic() + _BUSY_PAUSE_S > stop_s:
                raise ServerGone(f"{self.address}: refused by the server: {answer.reason}")
            time.sleep(_BUSY_PAUSE_S)
        if answer.lanes != lanes:
            raise ServerGone(f"{self.address}: {lanes} lanes asked for, and the server gave {answer.lanes}")
        try:
            largest = largest_frame_bytes(answer_fields(answer.spec, lanes))
        except Malformed as reason:
            raise ServerGone(f"{self.address}: its observations cannot be taken: {reason}") from None
        self._answer_fields = answer_fields(answer.spec, lanes)
        self._request_fields = request_fields(answer.spec, lanes)
        if largest > self._most_bytes:
            self._most_bytes = largest
            self._renew()
        self.welcome, self._number, self._is_open = answer, 0, True
        return answer

    def advance(self, arrays: Arrays) -> tuple[Arrays, dict[int, str]]:
        """Have the session's copies stepped once, however often that must be asked. The answer's arrays, and the words
        of lanes that failed. ``SessionLost`` when it must be begun anew."""
        if not self._is_open:
            raise SessionLost(f"{self.address}: the session has ended")
        number = self._number + 1
        request = Advance(epoch=self.welcome.epoch, session=self.welcome.session, number=number)

        def fits(said: Answer) -> bool:
            if isinstance(said, Advanced):
                return (said.epoch, said.session, said.number) == (request.epoch, request.session, number)
            return isinstance(said, Lost | Refused) and said.number == number

        parts = [encode(request), *pack(self._request_fields, arrays)]
        self._is_open = False  # until it is answered: another request with this number must never follow
        answer, frames = self._exchange(parts, fits, time.monotonic() + self.patience_s)
        if isinstance(answer, Lost):
            raise SessionLost(f"{self.address}: the server does not know this session")
        if isinstance(answer, Refused):
            raise ServerGone(f"{self.address}: refused by the server: {answer.reason}")
        assert isinstance(answer, Advanced)
        self._number, self._is_open = number, True
        return unpack(self._answer_fields, frames), answer.faults

    def close(self) -> None:
        """Say bye and go; never raises, never hangs."""
        if self._context.closed:
            return
        zmq = self._zmq
        if self._is_open and self._socket is not None:
            bye = Bye(epoch=self.welcome.epoch, session=self.welcome.session)
            with contextlib.suppress(zmq.ZMQError):  # the server finds out by itself
                self._socket.send(encode(bye), zmq.NOBLOCK)
                self._socket.setsockopt(zmq.LINGER, 200)
        self._is_open = False
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._context.term()

    def _exchange(
        self, parts: Sequence[bytes], fits: Callable[[Answer], bool], stop_s: float
    ) -> tuple[Answer, list[bytes]]:
        """Send until an answer fits."""
        attempt_s = min(max(_FIRST_ATTEMPT_S, 4 * self._slowest_s), _LONGEST_ATTEMPT_S)
        while True:
            if self._socket is None:
                self._renew()
            sent_s = time.monotonic()
            self._send(parts)
            found = self._receive(fits, min(sent_s + attempt_s, stop_s))
            if found is not None:
                self._slowest_s = max(self._slowest_s, time.monotonic() - sent_s)
                return found
            self._drop()  # with whatever is still queued in it
            if time.monotonic() >= stop_s:
                keys = (
                    f"know the client of {self._folder}" if self._keys else "want keys (env.kwargs.keys or WHORL_KEYS)"
                )
                raise ServerGone(
                    f"{self.address}: no answer for {self.patience_s:g} s: is `whorl env serve` running there"
                    f", and does it {keys}? For longer steps set env.kwargs.patience_s"
                )
            attempt_s = min(2 * attempt_s, _LONGEST_ATTEMPT_S)

    def _send(self, parts: Sequence[bytes]) -> None:
        with contextlib.suppress(self._zmq.Again):  # asked again later, over another socket
            self._socket.send_multipart(parts, self._zmq.NOBLOCK)

    def _receive(self, fits: Callable[[Answer], bool], until_s: float) -> tuple[Answer, list[bytes]] | None:
        """The answer, or None when its time is over. What cannot be read or was not asked for is dropped."""
        while (left_s := until_s - time.monotonic()) > 0:
            if not self._socket.poll(max(1, int(left_s * 1000))):
                continue
            header, *frames = self._socket.recv_multipart()
            try:
                answer = decode_answer(header)
                if fits(answer):
                    if isinstance(answer, Advanced):
                        unpack(self._answer_fields, frames)
                    return answer, frames
            except Malformed as error:
                if error.version not in (None, 1):
                    raise ServerGone(f"{self.address}: the server speaks protocol {error.version}, and we 1") from None
        return None

    def _renew(self) -> None:
        """A fresh socket: nothing sent or queued before can come of it."""
        zmq = self._zmq
        self._drop()
        self._socket = self._context.socket(zmq.DEALER)
        for option, value in (
            (zmq.LINGER, 0),
            (zmq.MAXMSGSIZE, self._most_bytes),
            (zmq.SNDHWM, 4),
            (zmq.RCVHWM, 16),
            (zmq.IPV6, int("[" in self.address)),
            (zmq.RECONNECT_IVL, 50),
            (zmq.RECONNECT_IVL_MAX, 1000),
        ):
            self._socket.setsockopt(option, value)
        if self._keys is not None:
            self._socket.curve_serverkey, self._socket.curve_secretkey = self._keys
            self._socket.curve_publickey = zmq.curve_public(self._keys[1])
        self._socket.connect(self.address)

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close(linger=0)
            self._socket = None


def _answers_hello(said: Answer, hello: Hello) -> bool:
    if isinstance(said, Welcome):
        return said.client == hello.client
    return isinstance(said, Refused) and said.number == 0
