"""How messages look on a line: msgpack with numeric arrays, in frames of a known length. Never pickle.

A frame is ``length | header length | header | body``. The supervisor reads the header alone to pass a message on
between roles; only who it is for decodes the body.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from whorl.engines.contract import RoleId
from whorl.plain_bytes import MAX_MESSAGE_BYTES
from whorl.plain_bytes import decode_body as decode_body
from whorl.plain_bytes import encode_body as encode_body

_FRAME = struct.Struct("<IH")


class Envelope(msgspec.Struct, array_like=True, frozen=True):
    """From whom, to whom, what. ``control`` frames are between the engine's own loops; roles never see them."""

    sender: tuple[str, int]
    to: tuple[str, int]
    kind: str
    control: bool = False

    @property
    def sender_id(self) -> RoleId:
        return RoleId(*self.sender)

    @property
    def to_id(self) -> RoleId:
        return RoleId(*self.to)


def envelope(sender: RoleId, to: RoleId, kind: str, control: bool = False) -> Envelope:
    """An envelope between two roles."""
    return Envelope((sender.kind, sender.index), (to.kind, to.index), kind, control)


_envelope_encoder = msgspec.msgpack.Encoder()
_envelope_decoder = msgspec.msgpack.Decoder(Envelope)


def plain_copy(values: Mapping[str, Any]) -> dict[str, Any]:
    """What the other side of a line would get: so ``inline`` behaves as ``local`` does."""
    return decode_body(encode_body(values))


def encode_frame(head: Envelope, body: bytes) -> bytes:
    """A whole frame."""
    header = _envelope_encoder.encode(head)
    return b"".join((_FRAME.pack(len(header) + len(body), len(header)), header, body))


def _read_header(header: memoryview) -> Envelope:
    """``ValueError`` for what is none: an older msgspec's errors are no kind of it."""
    try:
        return _envelope_decoder.decode(header)
    except msgspec.MsgspecError as error:
        raise ValueError(f"a frame has a header that cannot be read: {error}") from None


class FrameReader:
    """Cuts a stream of bytes into frames."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[Envelope, bytes]]:
        """Take more bytes; yields the frames completed by them."""
        self._pending += data
        position, available = 0, len(self._pending)
        while available - position >= _FRAME.size:
            length, header_length = _FRAME.unpack_from(self._pending, position)
            if header_length > length or length > MAX_MESSAGE_BYTES + 0xFFFF:
                raise ValueError(f"a frame claims {length:,} bytes with a header of {header_length:,}")
            start = position + _FRAME.size
            if available - start < length:
                break
            with memoryview(self._pending) as view:
                head = _read_header(view[start : start + header_length])
                body = bytes(view[start + header_length : start + length])
            position = start + length
            yield head, body
        del self._pending[:position]
