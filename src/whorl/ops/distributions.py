"""Log-probability, entropy and their gradients for whole batches, in numpy or torch.

Outputs of a head are *columns*, ``[width, N]``: every operation then runs along the long axis. The gradients are
written out, because autograd's bookkeeping would cost more than the mathematics of so small a graph.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from whorl.ops.checks import has_shape, same_shape
from whorl.ops.namespace import AnyArray, namespace

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class Evaluated(NamedTuple):
    """A distribution at the actions taken. ``saved`` is what the gradient needs again."""

    log_prob: AnyArray
    """[N]"""
    entropy: AnyArray
    """[N]"""
    saved: tuple[AnyArray, ...]


def evaluate_categorical(logits: AnyArray, chosen: AnyArray, nvec: tuple[int, ...]) -> Evaluated:
    """Independent categorical choices: log p(a) = sum_c log softmax(logits_c)[a_c], H = -sum_c sum_i p_i log p_i.

    ``logits`` is [sum(nvec), N]; ``chosen`` has the same shape and holds 1 where a component's choice was taken.
    """
    width, _ = same_shape(logits=logits, chosen=chosen)
    if width != sum(nvec):
        raise ValueError(f"choices of {nvec} need {sum(nvec)} logits, got {width}")
    xp, saved, start = namespace(logits), [], 0
    log_prob = entropy = 0.0
    for n in nvec:
        block = logits if len(nvec) == 1 else logits[start : start + n]
        taken = chosen if len(nvec) == 1 else chosen[start : start + n]
        shifted = block - xp.amax(block, 0)
        exponential = xp.exp(shifted)
        total = exponential.sum(0)
        p, log_p = exponential / total, shifted - xp.log(total)
        entropy_c = -(p * log_p).sum(0)
        log_prob = log_prob + (log_p * taken).sum(0)
        entropy = entropy + entropy_c
        saved += [log_p, p, entropy_c]
        start += n
    return Evaluated(log_prob, entropy, tuple(saved))


def categorical_gradient(
    evaluated: Evaluated, chosen: AnyArray, d_log_prob: AnyArray, d_entropy: AnyArray | None
) -> AnyArray:
    """The gradient [sum(nvec), N] of sum(d_log_prob * log_prob + d_entropy * entropy) with respect to the logits.

        d log p(a) / d logit_i = [i = a] - p_i          d H / d logit_i = -p_i (log p_i + H)

    ``d_entropy`` None: no entropy term.
    """
    xp, blocks, start = namespace(chosen), [], 0
    for at in range(0, len(evaluated.saved), 3):
        log_p, p, entropy = evaluated.saved[at : at + 3]
        taken = chosen[start : start + len(p)]
        block = d_log_prob * (taken - p)
        if d_entropy is not None:
            block = block - d_entropy * (p * (log_p + entropy))
        blocks.append(block)
        start += len(p)
    return blocks[0] if len(blocks) == 1 else xp.concatenate(blocks)


def evaluate_gaussian(outputs: AnyArray, actions: AnyArray) -> Evaluated:
    """A diagonal Gaussian: log p(a) = sum_j -z_j^2 / 2 - s_j - log(2 pi) / 2 with z = (a - mean) / exp(s),
    H = sum_j s_j + log(2 pi e) / 2.

    ``outputs`` is [2 D, N]: D means over D log standard deviations s; ``actions`` is [D, N].
    """
    size, rows = actions.shape
    has_shape("outputs", outputs, 2 * size, rows)
    mean, log_std = outputs[:size], outputs[size:]
    inverse_std = namespace(outputs).exp(-log_std)
    z = (actions - mean) * inverse_std
    log_prob = -(0.5 * z * z + log_std + _HALF_LOG_2PI).sum(0)
    entropy = (log_std + (0.5 + _HALF_LOG_2PI)).sum(0)
    return Evaluated(log_prob, entropy, (z, inverse_std))


def gaussian_gradient(evaluated: Evaluated, d_log_prob: AnyArray, d_entropy: AnyArray | None) -> AnyArray:
    """The gradient [2 D, N] of sum(d_log_prob * log_prob + d_entropy * entropy) with respect to the outputs.

    d log p / d mean = z / std          d log p / d s = z^2 - 1          d H / d s = 1
    """
    z, inverse_std = evaluated.saved
    d_log_std = d_log_prob * (z * z - 1)
    if d_entropy is not None:
        d_log_std = d_log_std + d_entropy
    return namespace(z).concatenate([d_log_prob * z * inverse_std, d_log_std])
