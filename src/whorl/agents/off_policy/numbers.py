"""Random numbers of the learner that follow from the seed, the update, the shard and their purpose alone.

Those of several updates are made at once: with one gradient step for every env step, making a generator would take
longer than drawing from it.
"""

from __future__ import annotations

import math

import numpy as np

from whorl.ops.noise import generator
from whorl.types import Array

_BLOCK = 8192
"""About how many numbers are made at once."""


class Numbers:
    """Numbers of one shape for every update and shard: uniform in [0, 1) as float64, or standard normal as float32."""

    def __init__(self, purpose: int, shape: tuple[int, ...], *, normal: bool = False) -> None:
        self._purpose = purpose
        self._shape = shape
        self._normal = normal
        self._updates = max(1, _BLOCK // math.prod(shape))
        self._made: dict[int, tuple[tuple[int, ...], Array]] = {}

    def of(self, key: tuple[int, ...], shard: int) -> Array:
        """The numbers of a shard in the update that ``key`` (seed, update) is of."""
        *seed, update = key
        block = (*seed, update // self._updates)
        made = self._made.get(shard)
        if made is None or made[0] != block:
            numbers, shape = generator(*block, shard, self._purpose), (self._updates, *self._shape)
            drawn = numbers.standard_normal(shape, np.float32) if self._normal else numbers.random(shape)
            made = self._made[shard] = (block, drawn)
        drawn_now: Array = made[1][update % self._updates]
        return drawn_now
