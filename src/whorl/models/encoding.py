"""From raw observations to a network's inputs, in numpy, for actors and learners alike.

Trajectories hold raw observations. Vectors (normalised, if asked for) and one-hot discrete values become one row of
*features*; images stay as they are and are scaled by the CNN.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from whorl.types import Array, Arrays, Field, ObservationLeaf

NORMALISED_LIMIT = np.float32(10)
"""Normalised observations are clipped to this, either way."""


class Encoder:
    """Writes the features of an observation's leaves side by side. Holds no statistics: they come with the weights."""

    def __init__(self, leaves: tuple[ObservationLeaf, ...], normalise: bool) -> None:
        self.leaves = tuple(leaf for leaf in leaves if leaf.kind != "image")
        self.images = tuple(leaf for leaf in leaves if leaf.kind == "image")
        self.normalised = tuple(leaf for leaf in leaves if leaf.kind == "vector" and normalise)
        self._parts: list[tuple[str, str, slice, Array]] = []
        self.width = 0
        for leaf in self.leaves:
            size = leaf.n if leaf.kind == "discrete" else math.prod(leaf.shape)
            how = "normalised" if leaf in self.normalised else leaf.kind
            self._parts.append((leaf.name, how, slice(self.width, self.width + size), np.arange(leaf.n)))
            self.width += size

    @property
    def statistics(self) -> tuple[Field, ...]:
        """The normaliser's part of the weights: x becomes (x - mean) * scale, clipped."""
        return tuple(
            Field(f"norm/{leaf.name}/{what}", leaf.shape, "float32")
            for leaf in self.normalised
            for what in ("mean", "scale")
        )

    def encode(self, weights: Arrays, observation: Arrays, out: NDArray[np.float32]) -> None:
        """Fill ``out`` [rows, width] from leaves of [rows, *leaf.shape]."""
        for name, how, columns, choices in self._parts:
            part, values = out[:, columns], observation[name]
            if how == "discrete":
                part[:] = values[:, None] == choices
            elif how == "normalised":
                mean, scale = weights[f"norm/{name}/mean"], weights[f"norm/{name}/scale"]
                np.subtract(values.reshape(len(values), -1), mean.reshape(-1), out=part, casting="same_kind")
                part *= scale.reshape(-1)
                np.clip(part, -NORMALISED_LIMIT, NORMALISED_LIMIT, out=part)
            else:
                part[:] = values.reshape(len(values), -1)


def image_scale(leaf: ObservationLeaf) -> tuple[float, float]:
    """(offset, factor) that bring an image to [0, 1]; an unbounded one is left alone."""
    if not (math.isfinite(leaf.low) and math.isfinite(leaf.high)) or leaf.high <= leaf.low:
        return (0.0, 1.0)
    return (leaf.low, 1.0 / (leaf.high - leaf.low))


def to_blocks(image: Array, size: int) -> Array:
    """[N, channels, height, width] to [N, rows, columns, channels * size * size]: what lies in each block of ``size`` x
    ``size`` pixels side by side. Pixels beyond the last whole block are left out."""
    count, channels, height, width = image.shape
    rows, columns = height // size, width // size
    image = image[:, :, : rows * size, : columns * size]
    if size * image.itemsize == 4:
        # The pixels of a block's row as one number: four times fewer to move.
        wide = np.ascontiguousarray(image).view(np.uint32).reshape(count, channels, rows, size, columns)
        blocks = np.ascontiguousarray(wide.transpose(0, 2, 4, 1, 3)).view(image.dtype)
    else:
        blocks = image.reshape(count, channels, rows, size, columns, size).transpose(0, 2, 4, 1, 3, 5)
    return blocks.reshape(count, rows, columns, channels * size * size)


def flat_rows(array: Array) -> Array:
    """[rows, lanes, ...] to [rows * lanes, ...]."""
    return array.reshape(-1, *array.shape[2:])
