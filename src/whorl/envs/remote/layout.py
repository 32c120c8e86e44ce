"""The arrays that follow a header: raw, C-contiguous, little-endian, in an order that both sides know.

Whoever receives them checks their number and the exact length of each before looking at one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Literal

import msgspec
import numpy as np

from whorl.envs.episode_metrics import check_names
from whorl.envs.remote.messages import Action, Leaf, Malformed, Spec
from whorl.types import ActionSpec, Array, Arrays, EnvSpec, Field, ObservationLeaf

LEAVE, STEP, RESET = range(3)
"""What is asked of a lane."""
UNTOUCHED, DONE, RAISED, FORBIDDEN = range(4)
"""What came of it: nothing was asked; as asked; the environment raised; it returned what its spaces forbid."""

MOST_FRAME_BYTES = 2**30
"""A server whose arrays would be larger is refused: it serves fewer lanes, or smaller observations."""


def request_fields(spec: Spec, lanes: int) -> tuple[Field, ...]:
    """The frames of ``advance``."""
    return (
        Field("op", (lanes,), "uint8"),
        Field("seed", (lanes,), "uint64"),
        Field("action", (lanes, *spec.action.shape), spec.action.dtype),
    )


def answer_fields(spec: Spec, lanes: int) -> tuple[Field, ...]:
    """The frames of ``advanced``; each leaf of the observation comes after the others, as ``obs/NAME``. An environment
    without metrics of its episodes has no frame for them."""
    metrics = len(spec.episode_metrics)
    return (
        Field("status", (lanes,), "uint8"),
        Field("reward", (lanes,), "float64"),
        Field("terminated", (lanes,), "uint8"),
        Field("truncated", (lanes,), "uint8"),
        *([Field("metrics", (lanes, metrics), "float64")] if metrics else []),
        *(Field(f"obs/{leaf.name}", (lanes, *leaf.shape), leaf.dtype) for leaf in spec.observation),
    )


def largest_frame_bytes(fields: Sequence[Field]) -> int:
    """The longest frame; ``Malformed`` when nobody should allocate that much."""
    size_bytes = max(field.size_bytes for field in fields)
    if size_bytes > MOST_FRAME_BYTES:
        raise Malformed(f"a frame of {size_bytes} bytes, and {MOST_FRAME_BYTES} are the most")
    return size_bytes


def pack(fields: Sequence[Field], arrays: Arrays) -> list[bytes]:
    """Arrays as frames."""
    return [np.ascontiguousarray(arrays[field.name], _little(field)).tobytes() for field in fields]


def unpack(fields: Sequence[Field], frames: Sequence[bytes]) -> Arrays:
    """Frames as arrays that cannot be written to; ``Malformed`` names the first frame that does not fit."""
    if len(frames) != len(fields):
        raise Malformed(f"{len(frames)} frames, and {len(fields)} are expected")
    for field, frame in zip(fields, frames, strict=True):
        if len(frame) != field.size_bytes:
            raise Malformed(f"frame {field.name!r} has {len(frame)} bytes, and {field.size_bytes} are expected")
    return {field.name: _array(field, frame) for field, frame in zip(fields, frames, strict=True)}


def _array(field: Field, frame: bytes) -> Array:
    return np.frombuffer(frame, _little(field)).reshape(field.shape)


def _little(field: Field) -> np.dtype[np.generic]:
    return np.dtype(field.dtype).newbyteorder("<")


def spec_to_wire(spec: EnvSpec) -> Spec:
    """What a server tells of its environment."""
    leaves = [
        Leaf(**{**asdict(leaf), "shape": list(leaf.shape)})  # as plain values the two are the same
        for leaf in spec.observation
    ]
    of = spec.action
    action = Action(of.kind, list(of.shape), of.dtype, list(of.nvec), list(of.low), list(of.high))  # type: ignore[arg-type]
    restore: Literal["replay", "none"] = "none" if spec.restore == "none" else "replay"
    return Spec(leaves, action, spec.max_episode_steps, restore, list(spec.episode_metrics))


def spec_from_wire(spec: Spec, env_id: str) -> EnvSpec:
    """What a client knows of a served environment; ``Malformed`` when the numbers do not go together."""
    leaves = tuple(
        ObservationLeaf(**{**msgspec.structs.asdict(leaf), "shape": tuple(leaf.shape)}) for leaf in spec.observation
    )
    of = spec.action
    action = ActionSpec(of.kind, tuple(of.shape), of.dtype, tuple(of.nvec), tuple(of.low), tuple(of.high))
    _check(leaves, action)
    return EnvSpec(
        env_id,
        leaves,
        action,
        spec.restore,
        vector_form=True,
        max_episode_steps=spec.max_episode_steps,
        episode_metrics=check_names(spec.episode_metrics, env_id),
    )


def _check(leaves: tuple[ObservationLeaf, ...], action: ActionSpec) -> None:
    """What the types of the header leave open."""
    if len({leaf.name for leaf in leaves}) != len(leaves):
        raise Malformed("two leaves of the observation have the same name")
    for leaf in leaves:
        dtype, axes = {"vector": ("float32", None), "image": ("uint8", 3), "discrete": ("int64", 0)}[leaf.kind]
        if leaf.dtype != dtype or axes not in (None, len(leaf.shape)) or (leaf.kind == "discrete") != (leaf.n > 0):
            raise Malformed(f"leaf {leaf.name!r}: {leaf.kind} {leaf.dtype}{list(leaf.shape)} with n = {leaf.n}")
        if leaf.frames > 1 and (leaf.kind != "image" or leaf.shape[0] % leaf.frames):
            raise Malformed(f"leaf {leaf.name!r}: {leaf.kind} {list(leaf.shape)} of {leaf.frames} frames")
        if not leaf.low <= leaf.high:
            raise Malformed(f"leaf {leaf.name!r} has bounds {leaf.low}..{leaf.high}")
    size = Field("action", action.shape, "uint8").size_bytes
    is_box = action.kind == "box"
    counts = (len(action.low), len(action.high), len(action.nvec))
    if counts != ((size, size, 0) if is_box else (0, 0, size)) or (action.dtype == "float32") != is_box:
        raise Malformed(f"action {action.kind} {action.dtype}{list(action.shape)} with {counts} bounds and choices")
    if action.kind == "discrete" and action.shape:
        raise Malformed(f"a discrete action of shape {list(action.shape)}")
    if not all(low <= high for low, high in zip(action.low, action.high, strict=True)):
        raise Malformed("an action whose lower bound is above its upper one")
