"""Drawing actions from given uniform numbers, in numpy: what an actor needs of a distribution, and no torch.

Each takes a head's outputs ``[rows, width]`` and numbers in (0, 1), and works row by row: a row's result does not
depend on the other rows.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from whorl.ops.checks import has_shape
from whorl.types import Array

_HALF_LOG_2PI = np.float32(0.5 * math.log(2 * math.pi))
_2PI = np.float32(2 * math.pi)


def sample_categorical(logits: Array, uniforms: Array) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Actions [rows] and their log-probabilities, by the inverse of the cumulative distribution.

    a = #{i : p_0 + ... + p_i < u}; ``uniforms`` is [rows].
    """
    rows, choices = logits.shape
    has_shape("uniforms", uniforms, rows)
    shifted = logits - np.maximum.reduce(logits, 1, keepdims=True)
    cumulative = np.add.accumulate(np.exp(shifted), 1)
    total = cumulative[:, -1]
    # The last is left out: u * total may round up to total, and must not go beyond the last choice.
    below = cumulative[:, :-1] < (uniforms * total)[:, None]
    actions = np.add.reduce(below, 1, np.int64)
    chosen = shifted.reshape(-1).take(actions + _starts(rows, choices))
    return actions, chosen - np.log(total)


@lru_cache(maxsize=16)
def _starts(rows: int, choices: int) -> NDArray[np.int64]:
    """Where each row starts in a flat array."""
    return np.arange(0, rows * choices, choices)


def sample_gaussian(mean: Array, log_std: Array, uniforms: Array) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Samples [rows, D] of a diagonal Gaussian and their log-densities [rows].

    ``mean`` is [rows, D], ``log_std`` is [D], ``uniforms`` is [rows, D rounded up to even].
    """
    size = mean.shape[1]
    has_shape("log_std", log_std, size)
    normal = normal_from(uniforms, size)
    log_density = -(np.float32(0.5) * normal * normal + log_std + _HALF_LOG_2PI).sum(axis=1)
    return mean + np.exp(log_std) * normal, log_density


def normal_from(uniforms: Array, size: int) -> NDArray[np.float32]:
    """Standard normal numbers [rows, size] of uniform ones [rows, size rounded up to even], by Box and Muller's
    transform (1958): a pair gives sqrt(-2 ln u_1) cos(2 pi u_2) and the same with sin."""
    has_shape("uniforms", uniforms, len(uniforms), size + size % 2)
    radius = np.sqrt(np.float32(-2) * np.log(uniforms[:, 0::2]))
    angle = _2PI * uniforms[:, 1::2]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)[:, :size]
