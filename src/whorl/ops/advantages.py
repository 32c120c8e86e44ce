"""Advantages and returns over streams of rows.

A lane is a stream of rows in which some rows are not valid: final observations and faults. One rule covers both: *a
successor that is not valid only bootstraps*. Its value closes the return of the row before it, and nothing flows
through it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whorl.ops.checks import has_shape, same_shape
from whorl.types import Array


class Advantages(NamedTuple):
    """What the rows were worth, [T, B] float32; 0 on rows that are not valid."""

    advantages: NDArray[np.float32]
    returns: NDArray[np.float32]
    """Targets for the value function: advantage plus value."""


def gae(
    r_t: Array, v_t: Array, terminated_t: Array, truncated_t: Array, valid_t: Array, discount: float, lambda_: float
) -> Advantages:
    """Generalised advantage estimation (Schulman et al. 2016).

        delta_t = r_t + discount * v_{t+1} * [not terminated_t] - v_t
        A_t     = delta_t + discount * lambda * A_{t+1} * [row t did not end its episode and row t+1 is valid]

    ``r_t``, ``terminated_t`` and ``truncated_t`` are [T, B]; ``v_t`` and ``valid_t`` are [T + 1, B]: the last row
    only bootstraps. ``lambda_ = 1`` gives Monte-Carlo returns that bootstrap where the rows end.
    """
    rows, lanes = same_shape(r_t=r_t, terminated_t=terminated_t, truncated_t=truncated_t)
    has_shape("v_t", v_t, rows + 1, lanes)
    has_shape("valid_t", valid_t, rows + 1, lanes)
    v_tm1 = v_t[:-1]
    delta = r_t + np.float32(discount) * v_t[1:] * ~terminated_t - v_tm1
    flows = ~(terminated_t | truncated_t) & valid_t[:-1] & valid_t[1:]
    decay = np.float32(discount * lambda_) * flows.astype(np.float32)
    advantages = np.where(valid_t[:-1], delta, np.float32(0)).astype(np.float32)
    for t in range(rows - 2, -1, -1):
        advantages[t] += decay[t] * advantages[t + 1]
    return Advantages(advantages, np.where(valid_t[:-1], advantages + v_tm1, np.float32(0)).astype(np.float32))


def n_step_returns(
    r_t: Array, v_t: Array, terminated_t: Array, truncated_t: Array, valid_t: Array, discount: float, n: int
) -> NDArray[np.float32]:
    """n-step returns (Sutton and Barto 2018, section 7.1), [T, B]; shorter where the episode or the rows end.

        G_t = r_t + discount * r_{t+1} + ... + discount^n * v_{t+n}

    Same arrays as ``gae``. A row that ends its episode, or whose successor is not valid, closes the sum there.
    """
    rows, lanes = same_shape(r_t=r_t, terminated_t=terminated_t, truncated_t=truncated_t)
    has_shape("v_t", v_t, rows + 1, lanes)
    has_shape("valid_t", valid_t, rows + 1, lanes)
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    gamma = np.float32(discount)
    bootstrap = v_t[1:] * ~terminated_t
    flows = ~(terminated_t | truncated_t) & valid_t[1:]
    flows[-1] = False
    returns = r_t + gamma * bootstrap
    for _ in range(n - 1):
        longer = np.concatenate([returns[1:], np.zeros((1, lanes), np.float32)])
        returns = np.where(flows, r_t + gamma * longer, r_t + gamma * bootstrap)
    return np.where(valid_t[:-1], returns, np.float32(0)).astype(np.float32)
