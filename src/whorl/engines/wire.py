"""How messages look on a line: msgpack with numeric arrays, in frames of a known length. Never pickle.

A frame is ``length | header length | header | body``. The supervisor reads the header alone to pass a message on
between roles; only who it is for decodes the body.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np

from whorl.engines.contract import RoleId

MAX_MESSAGE_BYTES = 256 * 1024 * 1024

_ARRAY_CODE = 1
_NUMERIC_KINDS = "biufc"
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


def _encode_unknown(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in _NUMERIC_KINDS:
            raise TypeError(f"a message holds an array of dtype {value.dtype}; only numbers and booleans may travel")
        dtype = value.dtype.str.encode()
        head = struct.pack(f"<B{len(dtype)}sB{value.ndim}Q", len(dtype), dtype, value.ndim, *value.shape)
        return msgspec.msgpack.Ext(_ARRAY_CODE, head + value.tobytes())
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a message holds a {type(value).__name__}; only plain values and numeric arrays may travel")


def _decode_extension(code: int, data: memoryview) -> Any:
    if code != _ARRAY_CODE:
        raise ValueError(f"a message holds an extension of unknown code {code}")
    dtype_end = 1 + data[0]
    dtype = np.dtype(bytes(data[1:dtype_end]).decode("ascii"))
    if dtype.kind not in _NUMERIC_KINDS:
        raise ValueError(f"a message holds an array of dtype {dtype}; only numbers and booleans may travel")
    ndim = data[dtype_end]
    shape = struct.unpack_from(f"<{ndim}Q", data, dtype_end + 1)
    raw = data[dtype_end + 1 + 8 * ndim :]
    if math.prod(shape) * dtype.itemsize != len(raw):
        raise ValueError(f"a message's array of shape {shape} and dtype {dtype} has {len(raw)} bytes")
    return np.frombuffer(bytearray(raw), dtype=dtype).reshape(shape)


_encoder = msgspec.msgpack.Encoder(enc_hook=_encode_unknown)
_decoder = msgspec.msgpack.Decoder(dict[str, Any], ext_hook=_decode_extension)
_envelope_encoder = msgspec.msgpack.Encoder()
_envelope_decoder = msgspec.msgpack.Decoder(Envelope)


def encode_body(body: Mapping[str, Any] | None) -> bytes:
    """A message's body as bytes. ``TypeError`` for what may not travel."""
    data = _encoder.encode(body if isinstance(body, dict) else dict(body or {}))
    if len(data) > MAX_MESSAGE_BYTES:
        raise ValueError(f"a message of {len(data):,} bytes is over the limit of {MAX_MESSAGE_BYTES:,}; use a channel")
    return data


def decode_body(data: bytes | bytearray | memoryview) -> dict[str, Any]:
    """The body again; its arrays are writable and own their memory."""
    return _decoder.decode(data)


def plain_copy(values: Mapping[str, Any]) -> dict[str, Any]:
    """What the other side of a line would get: so ``inline`` behaves as ``local`` does."""
    return decode_body(encode_body(values))


def encode_frame(head: Envelope, body: bytes) -> bytes:
    """A whole frame."""
    header = _envelope_encoder.encode(head)
    return b"".join((_FRAME.pack(len(header) + len(body), len(header)), header, body))


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
                head = _envelope_decoder.decode(view[start : start + header_length])
                body = bytes(view[start + header_length : start + length])
            position = start + length
            yield head, body
        del self._pending[:position]
