"""Losses of actor-critic agents, row by row, each with its gradient, in numpy or torch.

Every row carries a weight (0 for rows that are not valid). Losses are *sums* of weighted rows: sums of shards add up
to the sum of the batch, and whoever applies them divides by the summed weights.
"""

from __future__ import annotations

from typing import NamedTuple

from whorl.ops.checks import same_shape
from whorl.ops.namespace import AnyArray, namespace


class RowLoss(NamedTuple):
    """A loss and its derivative by the network's output, both weighted, [N]."""

    loss: AnyArray
    gradient: AnyArray


class ClipLoss(NamedTuple):
    """PPO's policy loss and what it says of the step, weighted, [N]."""

    loss: AnyArray
    gradient: AnyArray
    """By ``log_prob``."""
    kl: AnyArray
    """Estimate of KL(old || new): ratio - 1 - log ratio (Schulman 2020), never negative."""
    clipped: AnyArray
    """1 where the ratio left the clip range."""


def ppo_clip(
    log_prob: AnyArray, log_prob_old: AnyArray, advantage: AnyArray, weight: AnyArray, clip: float
) -> ClipLoss:
    """The clipped surrogate (Schulman et al. 2017, equation 7).

        ratio = exp(log_prob - log_prob_old)
        loss  = -weight * min(ratio * A, clip(ratio, 1 - clip, 1 + clip) * A)

    Its derivative is -weight * A * ratio where the first branch is the smaller, else 0.
    """
    same_shape(log_prob=log_prob, log_prob_old=log_prob_old, advantage=advantage, weight=weight)
    xp = namespace(log_prob)
    log_ratio = log_prob - log_prob_old
    ratio = xp.exp(log_ratio)
    excess = ratio - 1
    cost = -weight * advantage
    free = ratio * cost
    loss = xp.maximum(free, ratio.clip(1 - clip, 1 + clip) * cost)
    return ClipLoss(loss, free * (free == loss), (excess - log_ratio) * weight, (abs(excess) > clip) * weight)


def policy_gradient(log_prob: AnyArray, advantage: AnyArray, weight: AnyArray) -> RowLoss:
    """REINFORCE with a baseline (Williams 1992; Mnih et al. 2016): loss = -weight * A * log_prob."""
    same_shape(log_prob=log_prob, advantage=advantage, weight=weight)
    cost = -weight * advantage
    return RowLoss(cost * log_prob, cost)


def value_error(v_t: AnyArray, return_t: AnyArray, weight: AnyArray) -> RowLoss:
    """Squared error of the value: weight * (v_t - return_t)^2, without a factor 1/2."""
    same_shape(v_t=v_t, return_t=return_t, weight=weight)
    error = v_t - return_t
    weighted = weight * error
    return RowLoss(weighted * error, 2 * weighted)


def clipped_value_error(v_t: AnyArray, v_old_t: AnyArray, return_t: AnyArray, weight: AnyArray, clip: float) -> RowLoss:
    """Squared error of a value that may move by at most ``clip`` (OpenAI baselines' PPO).

    loss = weight * max((v - R)^2, (v_old + clip(v - v_old, -clip, clip) - R)^2)
    """
    same_shape(v_t=v_t, v_old_t=v_old_t, return_t=return_t, weight=weight)
    xp = namespace(v_t)
    moved = v_t - v_old_t
    error, bounded = v_t - return_t, v_old_t + moved.clip(-clip, clip) - return_t
    square, bounded_square = error * error, bounded * bounded
    gradient = 2 * weight * xp.where(square >= bounded_square, error, bounded * (abs(moved) < clip))
    return RowLoss(weight * xp.maximum(square, bounded_square), gradient)
