"""V-trace: returns and advantages of a policy from rows that an older policy acted.

The rows are those of ``ops.advantages``, and the same rule holds: *a successor that is not valid only bootstraps*.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whorl.ops.checks import has_shape, same_shape
from whorl.types import Array

_LOG_LIMIT = np.float32(80)
"""Larger log-ratios are as good as infinite, and would overflow."""


class VTrace(NamedTuple):
    """What the rows were worth, [T, B] float32; 0 on rows that are not valid."""

    advantages: NDArray[np.float32]
    """Of the actions taken. The policy gradient weighs each with its ``rho``."""
    returns: NDArray[np.float32]
    """Targets for the value function."""
    rho: NDArray[np.float32]
    """Clipped ratios."""


def vtrace(
    log_ratio_t: Array,
    r_t: Array,
    v_t: Array,
    terminated_t: Array,
    truncated_t: Array,
    valid_t: Array,
    discount: float,
    lambda_: float = 1.0,
    rho_bar: float = 1.0,
    c_bar: float = 1.0,
) -> VTrace:
    """V-trace (Espeholt et al. 2018, equation 1 and section 4.2), with lambda as in its remark 2.

        rho_t   = min(rho_bar, pi(a_t | x_t) / mu(a_t | x_t))
        c_t     = lambda * min(c_bar, pi(a_t | x_t) / mu(a_t | x_t))
        delta_t = rho_t (r_t + discount * v_{t+1} * [not terminated_t] - v_t)
        E_t     = delta_t + discount * c_t * E_{t+1} * [row t did not end its episode and row t+1 is valid]
        R_t     = v_t + E_t
        A_t     = r_t + discount * (v_{t+1} * [not terminated_t] + lambda * E_{t+1} * [as above]) - v_t

    ``log_ratio_t`` is the logarithm of pi / mu: pi the policy that learns, mu the one that acted. The other arrays are
    those of ``gae``, which this equals where every ratio is 1.
    """
    rows, lanes = same_shape(log_ratio_t=log_ratio_t, r_t=r_t, terminated_t=terminated_t, truncated_t=truncated_t)
    has_shape("v_t", v_t, rows + 1, lanes)
    has_shape("valid_t", valid_t, rows + 1, lanes)
    v_tm1, valid = v_t[:-1], valid_t[:-1]
    nothing = np.float32(0)
    ratio = np.exp(np.minimum(log_ratio_t, _LOG_LIMIT))
    rho = np.where(valid, np.minimum(ratio, np.float32(rho_bar)), nothing)
    one_step = np.where(valid, r_t + np.float32(discount) * v_t[1:] * ~terminated_t - v_tm1, nothing)
    flows = ~(terminated_t | truncated_t) & valid & valid_t[1:]
    carried = np.float32(discount * lambda_) * flows.astype(np.float32)
    kept = carried * np.minimum(ratio, np.float32(c_bar))
    errors = rho * one_step
    for t in range(rows - 2, -1, -1):
        errors[t] += kept[t] * errors[t + 1]
    later = np.concatenate([errors[1:], np.zeros((1, lanes), np.float32)])
    return VTrace(
        advantages=(one_step + carried * later).astype(np.float32),
        returns=np.where(valid, v_tm1 + errors, nothing).astype(np.float32),
        rho=rho.astype(np.float32),
    )
