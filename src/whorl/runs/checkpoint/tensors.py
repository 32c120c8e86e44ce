"""Array files: written straight from memory, hashed on the way, and checked before the safetensors library reads them.

Our own writer produces plain safetensors. It exists because it streams: no second copy of a large replay buffer, one
pass for writing and hashing, and a full disk is an ordinary ``OSError``.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from whorl.errors import CheckpointError
from whorl.runs.checkpoint.format import DTYPES, MAX_HEADER_BYTES, decode_json
from whorl.types import Array, Arrays

_NAME_OF_DTYPE = {dtype: name for name, dtype in DTYPES.items()}
_CHUNK_BYTES = 1 << 22


def array_chunks(arrays: Mapping[str, Array]) -> Iterator[bytes | memoryview]:
    """The bytes of a safetensors file, piece by piece: first the header, then each array."""
    # Widest items first, so that every array is aligned without padding (the format allows none).
    ordered = sorted(arrays.items(), key=lambda item: (-item[1].dtype.itemsize, item[0]))
    header: dict[str, Any] = {}
    position = 0
    for name, array in ordered:
        dtype = _NAME_OF_DTYPE.get(array.dtype.name)
        if dtype is None or array.dtype.byteorder == ">":
            raise CheckpointError(f"array {name!r} has dtype {array.dtype}, which a checkpoint cannot hold")
        header[name] = {
            "dtype": dtype,
            "shape": list(array.shape),
            "data_offsets": [position, position + array.nbytes],
        }
        position += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > MAX_HEADER_BYTES:
        raise CheckpointError(f"{len(arrays)} arrays need a header of {len(text)} bytes; at most {MAX_HEADER_BYTES}")
    yield struct.pack("<Q", len(text)) + text
    for _, array in ordered:
        if array.nbytes:
            yield np.asarray(array, order="C").reshape(-1).view(np.uint8).data


def hash_descriptor(descriptor: int) -> tuple[int, str]:
    """Size and SHA-256 of an open file, read from its start."""
    digest, size = hashlib.sha256(), 0
    os.lseek(descriptor, 0, os.SEEK_SET)
    while chunk := os.read(descriptor, _CHUNK_BYTES):
        digest.update(chunk)
        size += len(chunk)
    return size, digest.hexdigest()


def read_arrays(name: str, descriptor: int) -> Arrays:
    """The arrays of an open safetensors file, as fresh writable memory."""
    _check_header(name, descriptor)
    from safetensors import SafetensorError, safe_open

    try:
        # Through the descriptor, so that what was checked is what is read.
        with safe_open(f"/proc/self/fd/{descriptor}", framework="numpy") as file:
            return {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (it is no dict)
    except (SafetensorError, OSError, ValueError, TypeError) as error:
        raise CheckpointError(f"{name} is not a safetensors file: {str(error)[:100]}") from error


def _check_header(name: str, descriptor: int) -> None:
    size = os.fstat(descriptor).st_size
    prefix = os.pread(descriptor, 8, 0)
    if len(prefix) < 8:
        raise CheckpointError(f"{name} is not a safetensors file: it is too short")
    (length,) = struct.unpack("<Q", prefix)
    if length > min(MAX_HEADER_BYTES, size - 8):
        raise CheckpointError(f"{name} is not a safetensors file: it claims a header of {length} bytes")
    header = decode_json(f"{name}'s header", os.pread(descriptor, length, 8))
    if not isinstance(header, dict):
        raise CheckpointError(f"{name} is not a safetensors file: its header is not a table")
    for key, entry in header.items():
        if key != "__metadata__" and (not isinstance(entry, dict) or str(entry.get("dtype")) not in DTYPES):
            raise CheckpointError(f"{name}: array {key[:100]!r} has no dtype that a checkpoint may hold")
