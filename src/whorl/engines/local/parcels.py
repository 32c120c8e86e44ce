"""Parcels: bytes of any size with any number of descriptors over a SEQPACKET socket.

The bytes travel in a memfd (a packet's size is limited), descriptors in batches (the kernel takes at most 253 at once).
"""

from __future__ import annotations

import array
import os
import socket
import struct

_BATCH = 200
_COUNT = struct.Struct("=I")
_ANCILLARY_BYTES = socket.CMSG_SPACE(_BATCH * 4)


def send_parcel(connection: socket.socket, payload: bytes, descriptors: list[int]) -> None:
    """Send a payload and copies of descriptors."""
    carrier = os.memfd_create("whorl-parcel", os.MFD_CLOEXEC)
    try:
        os.write(carrier, payload)
        everything = [carrier, *descriptors]
        for first in range(0, len(everything), _BATCH):
            batch = array.array("i", everything[first : first + _BATCH])
            remaining = _COUNT.pack(len(everything) - first - len(batch))
            connection.sendmsg([remaining], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, batch)])
    finally:
        os.close(carrier)


def receive_parcel(connection: socket.socket) -> tuple[bytes, list[int]]:
    """The payload and the descriptors, which now belong to the caller. ``EOFError`` when the sender is gone."""
    descriptors: list[int] = []
    remaining = 1
    while remaining:
        data, ancillary, _, _ = connection.recvmsg(_COUNT.size, _ANCILLARY_BYTES, socket.MSG_CMSG_CLOEXEC)
        if not data:
            raise EOFError("the sender is gone")
        (remaining,) = _COUNT.unpack(data)
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                batch = array.array("i")
                batch.frombytes(content[: len(content) - len(content) % batch.itemsize])
                descriptors.extend(batch)
    carrier = descriptors.pop(0)
    try:
        return os.pread(carrier, os.fstat(carrier).st_size, 0), descriptors
    finally:
        os.close(carrier)
