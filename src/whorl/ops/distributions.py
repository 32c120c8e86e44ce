"""Log-probability, entropy and their gradients, in torch, for whole batches.

Outputs of a head are *columns*, ``[width, N]``: every operation then runs along the long axis. The gradients are
written out, because autograd's bookkeeping would cost more than the mathematics of so small a graph.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from whorl.ops.checks import has_shape

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class Evaluated(NamedTuple):
    """A distribution at the actions taken. ``saved`` is what the gradient needs again."""

    log_prob: Tensor
    """[N]"""
    entropy: Tensor
    """[N]"""
    saved: tuple[Tensor, ...]


def evaluate_categorical(logits: Tensor, actions: Tensor, nvec: tuple[int, ...]) -> Evaluated:
    """Independent categorical choices: log p(a) = sum_c log softmax(logits_c)[a_c], H = -sum_c sum_i p_i log p_i.

    ``logits`` is [sum(nvec), N], ``actions`` int64 [len(nvec), N].
    """
    has_shape("logits", logits, sum(nvec), logits.shape[1])
    has_shape("actions", actions, len(nvec), logits.shape[1])
    log_probs, entropies, saved = [], [], []
    for block, action in zip(logits.split(nvec), actions.split(1), strict=True):
        log_p = torch.log_softmax(block, 0)
        p = log_p.exp()
        entropy = -(p * log_p).sum(0)
        log_probs.append(log_p.gather(0, action)[0])
        entropies.append(entropy)
        saved += [log_p, p, entropy]
    return Evaluated(_sum_of(log_probs), _sum_of(entropies), tuple(saved))


def categorical_gradient(
    evaluated: Evaluated, actions: Tensor, d_log_prob: Tensor, d_entropy: Tensor | None
) -> Tensor:
    """The gradient [sum(nvec), N] of sum(d_log_prob * log_prob + d_entropy * entropy) with respect to the logits.

        d log p(a) / d logit_i = [i = a] - p_i          d H / d logit_i = -p_i (log p_i + H)

    ``d_entropy`` None: no entropy term.
    """
    blocks, saved = [], evaluated.saved
    for index, action in enumerate(actions.split(1)):
        log_p, p, entropy = saved[3 * index : 3 * index + 3]
        factor = d_log_prob if d_entropy is None else d_log_prob + d_entropy * (log_p + entropy)
        blocks.append((p * -factor).scatter_add_(0, action, d_log_prob[None]))
    return blocks[0] if len(blocks) == 1 else torch.cat(blocks)


def evaluate_gaussian(outputs: Tensor, actions: Tensor) -> Evaluated:
    """A diagonal Gaussian: log p(a) = sum_j -z_j^2 / 2 - s_j - log(2 pi) / 2 with z = (a - mean) / exp(s),
    H = sum_j s_j + log(2 pi e) / 2.

    ``outputs`` is [2 D, N]: D means over D log standard deviations s; ``actions`` is [D, N].
    """
    has_shape("outputs", outputs, 2 * actions.shape[0], actions.shape[1])
    mean, log_std = outputs.chunk(2)
    inverse_std = torch.exp(-log_std)
    z = (actions - mean) * inverse_std
    log_prob = -(0.5 * z * z + log_std + _HALF_LOG_2PI).sum(0)
    entropy = (log_std + (0.5 + _HALF_LOG_2PI)).sum(0)
    return Evaluated(log_prob, entropy, (z, inverse_std))


def gaussian_gradient(evaluated: Evaluated, d_log_prob: Tensor, d_entropy: Tensor | None) -> Tensor:
    """The gradient [2 D, N] of sum(d_log_prob * log_prob + d_entropy * entropy) with respect to the outputs.

    d log p / d mean = z / std          d log p / d s = z^2 - 1          d H / d s = 1
    """
    z, inverse_std = evaluated.saved
    d_log_std = d_log_prob * (z * z - 1)
    if d_entropy is not None:
        d_log_std = d_log_std + d_entropy
    return torch.cat([d_log_prob * z * inverse_std, d_log_std])


def _sum_of(tensors: list[Tensor]) -> Tensor:
    return tensors[0] if len(tensors) == 1 else torch.stack(tensors).sum(0)
