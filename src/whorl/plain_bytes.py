"""Plain values and numeric arrays as bytes: msgpack, never pickle. What messages between processes are made of.

Texts are UTF-8. What the operating system names (paths, environment variables) need not be, and travels as the bytes
that it is.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

MAX_MESSAGE_BYTES = 256 * 1024 * 1024

_ARRAY_CODE = 1
_NUMERIC_KINDS = "biufc"


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


def encode_body(body: Mapping[str, Any] | None) -> bytes:
    """A message's body as bytes. ``TypeError`` for what may not travel."""
    data = _encoder.encode(body if isinstance(body, dict) else dict(body or {}))
    if len(data) > MAX_MESSAGE_BYTES:
        raise ValueError(f"a message of {len(data):,} bytes is over the limit of {MAX_MESSAGE_BYTES:,}; use a channel")
    return data


def decode_body(data: bytes | bytearray | memoryview) -> dict[str, Any]:
    """The body again; its arrays are writable and own their memory."""
    return _decoder.decode(data)
