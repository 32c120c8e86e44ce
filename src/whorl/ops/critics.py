"""Targets and losses of critics of state and action, in numpy or torch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whorl.ops.checks import has_shape, same_shape
from whorl.ops.namespace import AnyArray, like, namespace


class CriticErrors(NamedTuple):
    """The squared errors of several critics against one target."""

    loss: AnyArray
    """[N]: summed over the critics, weighted."""
    gradient: AnyArray
    """[critics, N]: of the loss by each critic's value."""
    error: AnyArray
    """[N]: absolute temporal-difference error, the mean over the critics, not weighted."""


def clipped_double_q(q_t: AnyArray) -> AnyArray:
    """The least of the critics' values (Fujimoto et al. 2018, equation 10): [critics, N] to [N]."""
    return namespace(q_t).amin(q_t, 0)


def clipped_double_q_gradient(q_t: AnyArray) -> AnyArray:
    """The gradient [critics, N] of sum(clipped_double_q(q_t)): 1 for the least critic, the first of equal ones."""
    choices = like(q_t, np.arange(len(q_t)))
    return (choices[:, None] == q_t.argmin(0)) * namespace(q_t).ones_like(q_t)


def soft_value(q_t: AnyArray, log_prob_t: AnyArray, temperature: float) -> AnyArray:
    """The value of a maximum-entropy policy at a sampled action (Haarnoja et al. 2018, equation 3):

    min_k q_k - temperature * log_prob;  ``q_t`` is [critics, N], ``log_prob_t`` is [N].
    """
    least = clipped_double_q(q_t)
    same_shape(q_t=least, log_prob_t=log_prob_t)
    return least - temperature * log_prob_t


def critic_errors(q_tm1: AnyArray, target_t: AnyArray, weight: AnyArray) -> CriticErrors:
    """sum_k weight * (q_k - target)^2, without a factor 1/2. ``q_tm1`` is [critics, N], the others are [N]."""
    critics, rows = q_tm1.shape
    has_shape("target_t", target_t, rows)
    has_shape("weight", weight, rows)
    error = q_tm1 - target_t
    weighted = weight * error
    return CriticErrors((weighted * error).sum(0), 2 * weighted, abs(error).sum(0) / critics)


def temperature_gradient(log_prob: AnyArray, target_entropy: float) -> AnyArray:
    """The derivative [N] of  -log(temperature) * (log_prob + target_entropy)  by log(temperature): the temperature
    rises while the policy's entropy is below its target (Haarnoja et al. 2018b, equation 18, in the logarithm)."""
    return -(log_prob + target_entropy)
