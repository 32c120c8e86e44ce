"""Random numbers without state: each is a hash of where it is used.

A generator would have to be saved, restored and split whenever lanes move between actors. A number that depends only
on (seed, purpose, lane, row, column) is the same for every split of the lanes, after every resume and replay.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from whorl.types import Array

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_ROW_STRIDE = np.uint64(0xD1342543DE82EF95)
_COLUMN_STRIDE = np.uint64(0xDA942042E4DD58B5)


def uniform(seed: int, purpose: str, lanes: Array, row0: int, rows: int, width: int) -> NDArray[np.float32]:
    """Uniform numbers strictly inside (0, 1), [rows, lanes, width].

    Element [t, b, j] depends only on (seed, purpose, lanes[b], row0 + t, j): three rounds of the finaliser of
    SplitMix64 (Steele, Lea and Flood 2014) over lane, row and column, of which the top 23 bits k give (k + 1/2) / 2^23.
    """
    if lanes.ndim != 1:
        raise ValueError(f"lanes must be one-dimensional, got shape {lanes.shape}")
    by_lane = _mixed(_base(seed, purpose) + lanes.astype(np.uint64) * _GOLDEN)
    row = np.arange(row0, row0 + rows, dtype=np.uint64)
    by_row = _mixed(by_lane[None, :] + row[:, None] * _ROW_STRIDE)
    column = np.arange(1, width + 1, dtype=np.uint64)
    bits = _mixed(by_row[:, :, None] + column * _COLUMN_STRIDE)
    k = (bits >> np.uint64(41)).astype(np.float32)
    return (k + np.float32(0.5)) * np.float32(2.0**-23)


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's finaliser: a bijection of 64-bit words in which every input bit reaches every output bit."""
    words = (words ^ (words >> np.uint64(30))) * _MIX_1
    words = (words ^ (words >> np.uint64(27))) * _MIX_2
    return words ^ (words >> np.uint64(31))


@lru_cache(maxsize=64)
def _base(seed: int, purpose: str) -> np.uint64:
    digest = hashlib.blake2s(f"{seed}/{purpose}".encode(), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little"))


def generator(*key: int) -> np.random.Generator:
    """A generator for whole arrays (shuffles, initial weights) that follows from the key alone."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(key)))
