"""A client without manners: sends any bytes, and looks at what comes back."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import zmq

from whorl.envs.remote.messages import Answer, Pong, decode_answer


class RawClient:
    """A DEALER socket."""

    def __init__(self, address: str, **options: Any) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.linger = 0
        for name, value in options.items():
            setattr(self._socket, name, value)
        self._socket.connect(address)

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._context.destroy(linger=0)

    def send(self, *parts: bytes) -> None:
        self._socket.send_multipart(parts, zmq.NOBLOCK)

    def say(self, *frames: bytes, **header: Any) -> None:
        """A header of any content, with frames behind it."""
        self.send(msgspec.msgpack.encode({"whorl": 1, **header}), *frames)

    def hear(self, timeout_s: float = 10.0) -> tuple[Answer, list[bytes]] | None:
        if not self._socket.poll(int(timeout_s * 1000)):
            return None
        header, *frames = self._socket.recv_multipart()
        return decode_answer(header), frames

    def answer(self, *frames: bytes, **header: Any) -> Answer:
        """Say something and get its answer."""
        self.say(*frames, **header)
        heard = self.hear()
        while heard is not None and isinstance(heard[0], Pong):  # nobody asked: the server looks who is still there
            heard = self.hear()
        assert heard is not None, f"no answer to {header}"
        return heard[0]

    def hello(self, lanes: int = 2, client: bytes = b"0123456789abcdef") -> dict[str, Any]:
        """What an ``advance`` of the session then needs."""
        welcome: Any = self.answer(kind="hello", client=client, lanes=lanes)
        return {"kind": "advance", "epoch": welcome.epoch, "session": welcome.session}

    def pong(self) -> Any:
        """The server's counts, once all before it has been looked at."""
        self.say(kind="ping", number=77)
        while (heard := self.hear()) is not None:
            if getattr(heard[0], "counts", None) is not None:
                return heard[0]
        raise AssertionError("the server does not answer")


def frames_of(op: list[int], seed: list[int] | None = None, action: list[int] | None = None) -> list[bytes]:
    """The frames of an ``advance`` for discrete actions."""
    seeds, actions = seed or [0] * len(op), action or [0] * len(op)
    return [np.array(op, "u1").tobytes(), np.array(seeds, "<u8").tobytes(), np.array(actions, "<i8").tobytes()]
