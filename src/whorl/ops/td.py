"""Temporal-difference learning of action values: targets, errors and losses, in numpy or torch.

Action values are columns, [choices, N]. Losses are sums of weighted rows, each with its gradient.
"""

from __future__ import annotations

import numpy as np

from whorl.ops.checks import has_shape, same_shape
from whorl.ops.losses import RowLoss
from whorl.ops.namespace import AnyArray, namespace


def dueling(advantage: AnyArray, value: AnyArray) -> AnyArray:
    """Q = V + A - mean(A) (Wang et al. 2016, equation 9); ``advantage`` is [choices, N], ``value`` [N]."""
    has_shape("value", value, advantage.shape[1])
    return value + advantage - advantage.mean(0)


def dueling_gradient(d_q: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Gradients by advantages and by values, from those by Q [choices, N]."""
    return d_q - d_q.mean(0), d_q.sum(0)


def best_value(q_t: AnyArray, q_selector_t: AnyArray) -> AnyArray:
    """The value [N] in ``q_t`` of the action that ``q_selector_t`` thinks best.

    Double Q-learning (van Hasselt et al. 2016) selects with the online network and takes the value of the target
    network; with one network for both this is the maximum. Of equal actions the first is taken.
    """
    same_shape(q_t=q_t, q_selector_t=q_selector_t)
    if q_t is q_selector_t:
        return namespace(q_t).amax(q_t, 0)
    chosen = q_selector_t.argmax(0)
    if isinstance(q_t, np.ndarray):
        return q_t[chosen, np.arange(len(chosen))]
    return q_t.gather(0, chosen[None])[0]


def td_target(r_t: AnyArray, discount_t: AnyArray, v_t: AnyArray) -> AnyArray:
    """r + discount * v: the discount holds g^m, and 0 where the episode terminated."""
    same_shape(r_t=r_t, discount_t=discount_t, v_t=v_t)
    return r_t + discount_t * v_t


def huber(error: AnyArray, weight: AnyArray, delta: float) -> RowLoss:
    """Huber's loss (1964) of an error: squares / 2 up to ``delta``, straight lines beyond; ``delta`` 0: squares / 2.

    loss = weight * (delta |e| - delta^2 / 2  if |e| > delta  else  e^2 / 2),    derivative weight * clip(e, +-delta)
    """
    same_shape(error=error, weight=weight)
    clipped = error.clip(-delta, delta) if delta else error
    return RowLoss(weight * clipped * (error - clipped / 2), weight * clipped)
