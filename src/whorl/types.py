"""The nouns every layer shares: what an environment shows, what it takes, and flat layouts.

Nothing here imports torch or gymnasium, so an actor of a small network stays small.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Arrays = dict[str, Array]

_ALIGN_BYTES = 64  # a cache line: neighbouring fields never share one


@dataclass(frozen=True)
class Field:
    """One named array inside a flat buffer."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def size_bytes(self) -> int:
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class Layout:
    """How named arrays lie in one flat buffer: known before the start, so nothing is ever pickled.

    >>> layout = Layout((Field("reward", (4, 2), "float32"), Field("valid", (4, 2), "bool")))
    >>> rows = layout.views(layout.allocate())
    >>> rows["reward"].shape
    (4, 2)
    """

    fields: tuple[Field, ...]

    def __post_init__(self) -> None:
        names = [field.name for field in self.fields]
        if len(set(names)) != len(names):
            raise ValueError(f"a layout names a field twice: {names}")

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Where each field starts, in bytes."""
        offsets, position = [], 0
        for field in self.fields:
            offsets.append(position)
            position += -(-field.size_bytes // _ALIGN_BYTES) * _ALIGN_BYTES
        return tuple(offsets)

    @cached_property
    def size_bytes(self) -> int:
        """The whole buffer's size, padding included."""
        return sum(-(-field.size_bytes // _ALIGN_BYTES) * _ALIGN_BYTES for field in self.fields)

    def allocate(self) -> Array:
        """A zeroed private buffer of this layout (padding is zero, so equal values mean equal bytes)."""
        return np.zeros(self.size_bytes, dtype=np.uint8)

    def views(self, buffer: Array | memoryview) -> Arrays:
        """Each field as an array that shares the buffer's memory."""
        raw = np.frombuffer(buffer, dtype=np.uint8) if isinstance(buffer, memoryview) else buffer
        return {name: raw[part].view(dtype).reshape(shape) for name, part, dtype, shape in self._places}

    @cached_property
    def _places(self) -> list[tuple[str, slice, np.dtype[Any], tuple[int, ...]]]:
        """Name, bytes, dtype and shape of each field: kept, because small jobs look at their buffers all the time."""
        return [
            (field.name, slice(offset, offset + field.size_bytes), np.dtype(field.dtype), field.shape)
            for field, offset in zip(self.fields, self.offsets, strict=True)
        ]


@dataclass(frozen=True)
class ObservationLeaf:
    """One array of an observation. Dict and Tuple spaces become several, named by their path."""

    name: str
    """``"obs"`` for a plain space, ``"pos"`` or ``"camera.left"`` for a Dict, ``"0"`` for a Tuple."""
    kind: Literal["vector", "image", "discrete"]
    """An image is [channels, height, width] here, whatever the environment says; a discrete leaf is
    an int64 of shape ()."""
    shape: tuple[int, ...]
    dtype: str
    low: float = -math.inf
    """Lower bound over all elements (for a discrete leaf, 0 after its ``start`` is taken off)."""
    high: float = math.inf
    n: int = 0
    """Number of values of a discrete leaf."""
    frames: int = 1
    """Of a stacked image: how many, oldest first along its channels. All but the newest are those of the row before."""
    padding: Literal["reset", "zero"] = "reset"
    """What an episode's first stack holds before its only frame: that frame again, or zeros."""


@dataclass(frozen=True)
class ActionSpec:
    """What an environment takes. Arrays of actions are [lanes, *shape] of ``dtype``."""

    kind: Literal["discrete", "multi_discrete", "box"]
    shape: tuple[int, ...]
    dtype: str
    nvec: tuple[int, ...] = ()
    """Choices per component: one number for discrete, one for each component of multi_discrete."""
    low: tuple[float, ...] = ()
    """Flat lower bounds of a box; infinite where there is none."""
    high: tuple[float, ...] = ()


@dataclass(frozen=True)
class EnvSpec:
    """What the rest of Whorl needs to know of an environment, as plain values that travel as JSON."""

    env_id: str
    observation: tuple[ObservationLeaf, ...]
    action: ActionSpec
    restore: Literal["snapshot", "replay", "none"]
    """How a lost lane comes back: its saved state, its actions stepped again, or a new episode."""
    vector_form: bool
    """A vector form exists in which each copy has its own seed and can be reset alone."""
    max_episode_steps: int
    """Longer episodes are truncated here."""
    episode_metrics: tuple[str, ...] = ()
    """What its ``info`` tells of an episode when that ends, by name. ``episode_return`` takes the place of the sum of
    rewards, and an end without it (the loss of a life) is none to be counted."""

    def observation_fields(self, prefix: str, *leading: int) -> tuple[Field, ...]:
        """The observation's leaves as layout fields ``{prefix}{leaf}`` of shape [*leading, *leaf.shape]."""
        return tuple(Field(f"{prefix}{leaf.name}", (*leading, *leaf.shape), leaf.dtype) for leaf in self.observation)


def leaves_of(arrays: Mapping[str, Array], prefix: str) -> Arrays:
    """The entries below a prefix, without it: ``leaves_of(trajectory, "obs/")``."""
    return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}
