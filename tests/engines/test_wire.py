from __future__ import annotations

import struct

import msgspec
import numpy as np
import pytest

from whorl.engines.contract import SUPERVISOR, RoleId
from whorl.engines.wire import FrameReader, decode_body, encode_body, encode_frame, envelope


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "float64", "complex64", ">i4"])
def test_arrays_come_back_as_they_were(dtype):
    for shape in [(), (0,), (3, 2)]:
        array = np.ones(shape, dtype=dtype)
        back = decode_body(encode_body({"a": array}))["a"]
        assert back.dtype == array.dtype
        assert back.shape == shape
        assert (back == array).all()


@pytest.mark.parametrize("value", [object(), np.array([None]), np.array(["text"]), {1, 2}.__iter__()])
def test_what_is_not_plain_does_not_travel(value):
    with pytest.raises(TypeError):
        encode_body({"a": value})


def test_a_hostile_array_is_refused():
    head = struct.pack("<B3sB1Q", 3, b"<f4", 1, 2**62)
    with pytest.raises((ValueError, msgspec.ValidationError), match="bytes"):
        decode_body(msgspec.msgpack.encode({"a": msgspec.msgpack.Ext(1, head)}))
    with pytest.raises((ValueError, msgspec.ValidationError), match="dtype object"):
        decode_body(
            msgspec.msgpack.encode({"a": msgspec.msgpack.Ext(1, struct.pack("<B2sB", 2, b"|O", 0) + b"8bytes..")})
        )


def test_frames_are_cut_wherever_the_bytes_are_split():
    heads = [envelope(RoleId("actor", i), SUPERVISOR, f"kind-{i}") for i in range(3)]
    stream = b"".join(encode_frame(head, encode_body({"i": i})) for i, head in enumerate(heads))
    for size in (1, 7, len(stream)):
        reader = FrameReader()
        pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
        frames = [frame for piece in pieces for frame in reader.feed(piece)]
        assert [head for head, _ in frames] == heads
        assert [decode_body(body) for _, body in frames] == [{"i": 0}, {"i": 1}, {"i": 2}]


def test_a_frame_that_claims_too_much_is_refused():
    with pytest.raises(ValueError, match="claims"):
        list(FrameReader().feed(struct.pack("<IH", 2**31, 10)))


def test_a_frame_whose_header_is_garbage_is_refused():
    with pytest.raises(ValueError, match="header that cannot be read"):
        list(FrameReader().feed(struct.pack("<IH", 20, 10) + b"\xff" * 20))
