"""Losses of actor-critic agents, row by row, each with its gradient.

Every row carries a weight (0 for rows that are not valid). Losses are *sums* of weighted rows: sums of shards add up
to the sum of the batch, and whoever applies them divides by the summed weights.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from whorl.ops.checks import same_shape


class RowLoss(NamedTuple):
    """A loss and its derivative by the network's output, both weighted, [N]."""

    loss: Tensor
    gradient: Tensor


class ClipLoss(NamedTuple):
    """PPO's policy loss and what it says of the step, weighted, [N]."""

    loss: Tensor
    gradient: Tensor
    """By ``log_prob``."""
    kl: Tensor
    """Estimate of KL(old || new): ratio - 1 - log ratio (Schulman 2020), never negative."""
    clipped: Tensor
    """1 where the ratio left the clip range."""


def ppo_clip(log_prob: Tensor, log_prob_old: Tensor, advantage: Tensor, weight: Tensor, clip: Tensor) -> ClipLoss:
    """The clipped surrogate (Schulman et al. 2017, equation 7).

        ratio = exp(log_prob - log_prob_old)
        loss  = -weight * min(ratio * A, clip(ratio, 1 - clip, 1 + clip) * A)

    Its derivative is -weight * A * ratio where the first branch is the smaller, else 0. ``clip`` is a tensor of shape
    (), so that an annealed clip does not compile anew.
    """
    same_shape(log_prob=log_prob, log_prob_old=log_prob_old, advantage=advantage, weight=weight)
    log_ratio = log_prob - log_prob_old
    ratio = log_ratio.exp()
    weighted = advantage * weight
    free = ratio * weighted
    bounded = ratio.clamp(1 - clip, 1 + clip) * weighted
    kl = (ratio - 1 - log_ratio) * weight
    clipped = ((ratio - 1).abs() > clip) * weight
    return ClipLoss(-torch.minimum(free, bounded), -free * (free <= bounded), kl, clipped)


def policy_gradient(log_prob: Tensor, advantage: Tensor, weight: Tensor) -> RowLoss:
    """REINFORCE with a baseline (Williams 1992; Mnih et al. 2016): loss = -weight * A * log_prob."""
    same_shape(log_prob=log_prob, advantage=advantage, weight=weight)
    weighted = -advantage * weight
    return RowLoss(weighted * log_prob, weighted)


def value_error(v_t: Tensor, return_t: Tensor, weight: Tensor) -> RowLoss:
    """Squared error of the value: weight * (v_t - return_t)^2, without a factor 1/2."""
    same_shape(v_t=v_t, return_t=return_t, weight=weight)
    error = v_t - return_t
    weighted = weight * error
    return RowLoss(weighted * error, 2 * weighted)


def clipped_value_error(v_t: Tensor, v_old_t: Tensor, return_t: Tensor, weight: Tensor, clip: float) -> RowLoss:
    """Squared error of a value that may move by at most ``clip`` (OpenAI baselines' PPO).

    loss = weight * max((v - R)^2, (v_old + clip(v - v_old, -clip, clip) - R)^2)
    """
    same_shape(v_t=v_t, v_old_t=v_old_t, return_t=return_t, weight=weight)
    moved = v_t - v_old_t
    error, bounded_error = v_t - return_t, v_old_t + moved.clamp(-clip, clip) - return_t
    free = error.square() >= bounded_error.square()
    loss = weight * torch.maximum(error.square(), bounded_error.square())
    gradient = 2 * weight * torch.where(free, error, bounded_error * (moved.abs() < clip))
    return RowLoss(loss, gradient)
