"""Whatever comes to a server's socket, nothing of it is run, nothing large is allocated, and others are served."""

from __future__ import annotations

import contextlib
import os
import pickle
import resource
import socket
import struct
import time
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from whorl.envs.registry import make_env

from .conftest import Serve
from .raw_client import RawClient, frames_of

LOOPBACK = "tcp://127.0.0.1:*"
GREETING = b"\xff" + bytes(8) + b"\x7f\3\0" + b"NULL".ljust(20, b"\0") + bytes(32)
READY = b"\4\x1a\5READY\x0bSocket-Type\0\0\0\6DEALER"


class Bomb:
    def __reduce__(self) -> Any:
        return os.abort, ()


def honest_client_is_served(address: str) -> None:
    env = make_env(address, {"patience_s": 20})
    env.reset(seed=1)
    env.step(0)
    env.close()


def deep(levels: int) -> bytes:
    return b"\x91" * levels + b"\xc0"


HEADERS = {
    "empty": b"",
    "a pickle": pickle.dumps(Bomb()),
    "random": os.urandom(200),
    "deep arrays": deep(60_000),
    "deep maps": b"\x81\xa1a" * 20_000 + b"\xc0",
    "a map that claims 4 G entries": b"\xdf\xff\xff\xff\xff",
    "text that claims 4 GB": b"\x81\xa5whorl\xdb\xff\xff\xff\xff",
    "deep inside a field": msgspec.msgpack.encode({"whorl": 1, "kind": "hello"})[:-1] + deep(10_000),
    "no map": msgspec.msgpack.encode([1, "hello"]),
    "an extension": b"\xc7\4\1abcd",
}
FIELDS: dict[str, dict[str, Any]] = {
    "unknown kind": {"kind": "exec"},
    "unknown key": {"kind": "ping", "number": 1, "code": "1"},
    "no kind": {"number": 1},
    "huge number": {"kind": "ping", "number": 2**64 - 1},
    "wrong type": {"kind": "hello", "client": "text of 16 chars", "lanes": 1},
    "a float of lanes": {"kind": "hello", "client": bytes(16), "lanes": 1.5},
    "no lanes": {"kind": "hello", "client": bytes(16), "lanes": 0},
    "negative lanes": {"kind": "hello", "client": bytes(16), "lanes": -1},
    "a million lanes": {"kind": "hello", "client": bytes(16), "lanes": 10**6},
    "short client": {"kind": "hello", "client": b"", "lanes": 1},
    "number 0": {"kind": "advance", "epoch": bytes(8), "session": 1, "number": 0},
}


def send_all_that_is_none(raw: RawClient) -> int:
    """Whatever is no message of the protocol; how many a server must drop."""
    for header in HEADERS.values():
        raw.send(header)
        raw.send(header, b"frame")
    for fields in FIELDS.values():
        raw.say(**fields)
    raw.send(*[b"part"] * 5000)
    raw.say(b"frame", kind="ping", number=1)
    return 2 * len(HEADERS) + len(FIELDS) + 2


def test_messages_that_are_none_are_dropped_and_counted(serve: Serve) -> None:
    served = serve("CartPole-v1")
    with RawClient(served.address) as raw:
        sent = send_all_that_is_none(raw)
        assert raw.pong().counts["dropped"] == sent
    honest_client_is_served(served.address)


def test_frames_beyond_the_layout_break_the_connection_before_they_are_read(serve: Serve) -> None:
    served = serve("CartPole-v1", bind=LOOPBACK)
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with RawClient(served.address) as raw:
        raw.hello()
        raw.send(bytes(70_000))
        raw.send(b"x", bytes(50_000_000))
        time.sleep(0.3)
    port = int(served.address.rpartition(":")[2])
    for size in (2**31, 2**62, 2**63 + 5):
        with socket.create_connection(("127.0.0.1", port), 5) as stranger:
            stranger.sendall(GREETING + READY + b"\2" + struct.pack(">Q", size))
            stranger.settimeout(5)
            with contextlib.suppress(ConnectionError):
                while stranger.recv(1000):  # until the server hangs up
                    pass
    grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb
    assert grown_kb < 150_000, "the sender's own 50 MB, and not gigabytes"
    honest_client_is_served(served.address)


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\n\r\n", os.urandom(5000), bytes(5000), b"\xff" * 5000])
def test_strangers_who_speak_no_zeromq_are_no_matter(serve: Serve, garbage: bytes) -> None:
    served = serve("CartPole-v1", bind=LOOPBACK)
    port = int(served.address.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), 5) as stranger:
        stranger.sendall(garbage)
        honest_client_is_served(served.address)


def test_many_silent_connections_do_not_keep_others_out(serve: Serve) -> None:
    served = serve("CartPole-v1", bind=LOOPBACK)
    port = int(served.address.rpartition(":")[2])
    strangers = [socket.create_connection(("127.0.0.1", port), 5) for _ in range(300)]
    try:
        honest_client_is_served(served.address)
    finally:
        for stranger in strangers:
            stranger.close()


def test_a_client_that_never_reads_holds_nobody_up(serve: Serve) -> None:
    served = serve("whorl/Image-v0", kwargs={"size": 300}, bind=LOOPBACK)
    with RawClient(served.address, rcvhwm=1) as deaf:
        session = deaf.hello()
        for _ in range(300):
            try:
                deaf.say(*frames_of([2, 2]), number=1, **session)
            except Exception:
                break  # its own queue is full
        honest_client_is_served(served.address)


words = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=20)
    | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
kinds = st.sampled_from(["hello", "advance", "ping", "bye", "welcome", "lost"])
almost = st.fixed_dictionaries(
    {"whorl": st.just(1) | words, "kind": kinds | words},
    optional={
        "client": st.binary(min_size=16, max_size=16) | words,
        "lanes": st.integers(1, 9) | words,
        "epoch": st.just(b"EPOCH") | words,
        "session": st.just("SESSION") | words,
        "number": st.integers(1, 4) | words,
        "extra": words,
    },
)
frames = st.lists(st.binary(max_size=40) | st.sampled_from(frames_of([1, 2], [5, 6], [1, 0])), max_size=6)
messages = st.tuples(st.binary(max_size=300) | almost, frames) | st.tuples(
    almost, st.just(frames_of([1, 2], [5, 6], [1, 0]))
)


def fuzz(address: str, examples: int) -> None:
    """Bytes and messages that are almost right, from a client that has a session."""
    with RawClient(address) as raw:
        session = raw.hello(lanes=2)

        @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
        @given(st.lists(messages, min_size=1, max_size=8))
        def send(sent: list[tuple[Any, list[bytes]]]) -> None:
            for header, parts in sent:
                if isinstance(header, dict):
                    if header.get("epoch") == b"EPOCH":
                        header["epoch"] = session["epoch"]
                    if header.get("session") == "SESSION":
                        header["session"] = session["session"]
                    header = msgspec.msgpack.encode(header)
                raw.send(header, *parts)
            raw.pong()

        send()


def test_anything_at_all(serve: Serve) -> None:
    served = serve("CartPole-v1")
    fuzz(served.address, 40)
    assert served.counts["dropped"] > 0


@pytest.mark.verify
def test_anything_at_all_at_length(serve: Serve) -> None:
    served = serve("CartPole-v1", idle_s=0.5)
    fuzz(served.address, 20_000)
    time.sleep(1)
    honest_client_is_served(served.address)
