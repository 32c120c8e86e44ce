"""Actions between bounds, in the scaled space where the bounds are -1 and 1: noise, and the squashed Gaussian.

Arrays are *columns*, ``[D, N]``, in numpy or torch, but for what actors use, which is rows ``[lanes, D]`` in numpy.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whorl.ops.checks import has_shape, same_shape
from whorl.ops.namespace import AnyArray, namespace
from whorl.types import Array

LOG_STD_LOW, LOG_STD_HIGH = -20.0, 2.0
"""A squashed Gaussian's log standard deviation is held between these."""
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_LOG_2 = math.log(2)


class Squashed(NamedTuple):
    """Samples of a squashed Gaussian."""

    action: AnyArray
    """[D, N], inside (-1, 1)."""
    log_prob: AnyArray
    """[N], of the squashed action."""
    saved: tuple[AnyArray, ...]
    """What the gradient needs again."""


def ornstein_uhlenbeck(x_tm1: Array, normal: Array, theta: float, sigma: float) -> NDArray[np.float32]:
    """One step of a noise that returns to 0 (Uhlenbeck and Ornstein 1930; Lillicrap et al. 2016), [lanes, D]:

    x_t = x_tm1 - theta * x_tm1 + sigma * normal
    """
    same_shape(x_tm1=x_tm1, normal=normal)
    return np.asarray(x_tm1 * np.float32(1 - theta) + normal * np.float32(sigma), np.float32)


def smoothed(a_t: AnyArray, normal: AnyArray, std: float, limit: float) -> AnyArray:
    """Target policy smoothing (Fujimoto et al. 2018, equation 14):

    clip(a_t + clip(std * normal, -limit, limit), -1, 1)
    """
    same_shape(a_t=a_t, normal=normal)
    return (a_t + (std * normal).clip(-limit, limit)).clip(-1, 1)


def squashed_gaussian(outputs: AnyArray, normal: AnyArray) -> Squashed:
    """tanh of a diagonal Gaussian sample (Haarnoja et al. 2018, appendix C).

        u = mean + exp(s) * normal          a = tanh(u)
        log p(a) = sum_j -normal_j^2 / 2 - s_j - log(2 pi) / 2 - log(1 - tanh(u_j)^2)

    ``outputs`` is [2 D, N]: D means over D log standard deviations s, which are clipped; ``normal`` is [D, N].
    The last term is computed as 2 (log 2 - u - softplus(-2 u)), which stays finite where tanh rounds to 1.
    """
    size, rows = normal.shape
    has_shape("outputs", outputs, 2 * size, rows)
    xp = namespace(outputs)
    raw = outputs[size:]
    log_std = raw.clip(LOG_STD_LOW, LOG_STD_HIGH)
    spread = xp.exp(log_std) * normal
    u = outputs[:size] + spread
    action = xp.tanh(u)
    # softplus(-2 u) = log(1 + exp(-2 |u|)) - 2 min(u, 0), and u + 2 * max(-u, 0) = |u|
    magnitude = abs(u)
    log_slope = 2 * (_LOG_2 - magnitude - xp.log1p(xp.exp(-2 * magnitude)))
    log_prob = -(0.5 * normal * normal + log_std + _HALF_LOG_2PI + log_slope).sum(0)
    return Squashed(action, log_prob, (spread, log_std == raw))


def squashed_gaussian_gradient(squashed: Squashed, d_action: AnyArray, d_log_prob: AnyArray) -> AnyArray:
    """The gradient [2 D, N] of sum(d_action * action) + sum(d_log_prob * log_prob) with respect to the outputs, the
    sample's ``normal`` held fixed (reparametrisation).

        d a / d u = 1 - a^2      d log p / d u = 2 a      d u / d mean = 1      d u / d s = exp(s) * normal
        and d log p / d s = -1 besides;  0 where s was clipped
    """
    spread, free = squashed.saved
    action = squashed.action
    d_u = d_action * (1 - action * action) + d_log_prob * (2 * action)
    return namespace(action).concatenate([d_u, (d_u * spread - d_log_prob) * free])
