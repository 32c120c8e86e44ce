"""The headers of the wire protocol: one typed struct for each kind of message, and no other way in.

Every header is a msgpack map with the protocol's version under ``whorl`` and its kind under ``kind``. Unknown keys,
wrong types and numbers out of range are refused by the decoder, before anything is done with them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from whorl.envs.episode_metrics import MOST_METRICS

VERSION = 1

REQUEST_HEADER_BYTES = 64 * 1024
"""A longer header to a server is refused unread."""
ANSWER_HEADER_BYTES = 1024 * 1024
"""A longer header to a client is refused unread; bounds of a large action space travel in ``welcome``."""
MOST_LANES = 4096
"""Lanes of one session."""
MOST_LEAVES = 256
MOST_AXES = 8
LONGEST_TEXT = 1000
"""Characters of a reason or a fault."""

Natural = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Positive = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Lanes = Annotated[int, Meta(ge=1, le=MOST_LANES)]
Shape = Annotated[list[Positive], Meta(max_length=MOST_AXES)]
Text = Annotated[str, Meta(max_length=LONGEST_TEXT)]
Token = Annotated[bytes, Meta(min_length=16, max_length=16)]
Epoch = Annotated[bytes, Meta(min_length=8, max_length=8)]


class Leaf(Struct, forbid_unknown_fields=True, frozen=True):
    """One array of an observation."""

    name: Text
    kind: Literal["vector", "image", "discrete"]
    shape: Shape
    dtype: Literal["float32", "uint8", "int64"]
    low: float
    high: float
    n: Natural = 0
    frames: Annotated[int, Meta(ge=1, le=255)] = 1
    padding: Literal["reset", "zero"] = "reset"


class Action(Struct, forbid_unknown_fields=True, frozen=True):
    """What a step takes."""

    kind: Literal["discrete", "multi_discrete", "box"]
    shape: Shape
    dtype: Literal["float32", "int64"]
    nvec: list[Positive] = []
    low: list[float] = []
    high: list[float] = []


class Spec(Struct, forbid_unknown_fields=True, frozen=True):
    """The spaces of the served environment, and what else a client must know of it."""

    observation: Annotated[list[Leaf], Meta(min_length=1, max_length=MOST_LEAVES)]
    action: Action
    max_episode_steps: Positive
    restore: Literal["replay", "none"]
    episode_metrics: Annotated[list[Text], Meta(max_length=MOST_METRICS)] = []


class _Message(Struct, forbid_unknown_fields=True, tag_field="kind", kw_only=True):
    whorl: Literal[1] = 1


class Hello(_Message, tag="hello"):
    """A client wants copies. Repeated with the same ``client``, it is the same wish."""

    client: Token
    lanes: Lanes


class Advance(_Message, tag="advance"):
    """Step, reset or leave alone each lane of a session. Repeated with the same number, it is done once."""

    epoch: Epoch
    session: Natural
    number: Positive


class Ping(_Message, tag="ping"):
    """Is anybody there?"""

    number: Natural = 0


class Bye(_Message, tag="bye"):
    """The session's copies are free."""

    epoch: Epoch
    session: Natural


class Welcome(_Message, tag="welcome"):
    """Copies are there for you."""

    client: Token
    epoch: Epoch
    session: Natural
    lanes: Lanes
    most_lanes: Lanes
    env: Text
    spec: Spec


class Advanced(_Message, tag="advanced"):
    """What came of it; ``faults`` are the words of lanes whose status is not good."""

    epoch: Epoch
    session: Natural
    number: Positive
    faults: dict[int, Text] = {}


class Lost(_Message, tag="lost"):
    """The session is not known here: the server is another one, or has given its copies away."""

    epoch: Epoch
    number: Positive


class Refused(_Message, tag="refused"):
    """Nothing was done, and why. ``number`` is that of the request, 0 for a hello. ``busy``: ask again later."""

    number: Natural
    reason: Text
    busy: bool = False


class Pong(_Message, tag="pong"):
    """Here. ``counts`` says how many messages of which sort the server has seen."""

    number: Natural
    epoch: Epoch
    counts: dict[str, int]


class _AnyVersion(Struct):
    """All that is looked at of a header that is not one of ours."""

    whorl: int


Request = Hello | Advance | Ping | Bye
Answer = Welcome | Advanced | Lost | Refused | Pong

_encoder = msgspec.msgpack.Encoder()
_request_decoder: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_answer_decoder: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)
_version_decoder = msgspec.msgpack.Decoder(_AnyVersion)


class Malformed(ValueError):
    """Not a message of this protocol. ``version`` is the one it claims, where it claims one."""

    def __init__(self, reason: str, version: int | None = None) -> None:
        super().__init__(reason[:LONGEST_TEXT])
        self.version = version


def encode(message: Request | Answer) -> bytes:
    """A header's bytes."""
    return _encoder.encode(message)


def decode_request(header: bytes) -> Request:
    """A header that came to a server."""
    return _decode(_request_decoder, header, REQUEST_HEADER_BYTES)


def decode_answer(header: bytes) -> Answer:
    """A header that came to a client."""
    return _decode(_answer_decoder, header, ANSWER_HEADER_BYTES)


Message = TypeVar("Message")


def _decode(decoder: msgspec.msgpack.Decoder[Message], header: bytes, most_bytes: int) -> Message:
    if len(header) > most_bytes:
        raise Malformed(f"a header of {len(header)} bytes, and {most_bytes} are the most")
    try:
        return decoder.decode(header)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise Malformed(f"not a header of protocol {VERSION}: {error}", _claimed_version(header)) from None


def _claimed_version(header: bytes) -> int | None:
    try:
        claimed = _version_decoder.decode(header).whorl
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None
    return claimed if abs(claimed) < 2**63 else None


def brief(text: Any) -> str:
    """Text cut to what a header takes."""
    return str(text)[:LONGEST_TEXT]
