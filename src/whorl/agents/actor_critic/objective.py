"""From the network's outputs to the gradients that go back into it."""

from __future__ import annotations

from typing import NamedTuple

from whorl.models.heads import CategoricalHead, Head
from whorl.models.torch_forward import Inputs, Outputs
from whorl.ops.distributions import (
    Evaluated,
    categorical_gradient,
    evaluate_categorical,
    evaluate_gaussian,
    gaussian_gradient,
)
from whorl.ops.losses import RowLoss, policy_gradient, value_error
from whorl.ops.namespace import AnyArray, namespace


class Minibatch(NamedTuple):
    """Rows for one gradient."""

    inputs: Inputs
    taken: AnyArray
    """Actions as columns: one-hot [choices, N], or a Gaussian's raw samples [size, N]."""
    log_prob: AnyArray
    """Of the policy that the ratio is taken against."""
    advantage: AnyArray
    returns: AnyArray
    value: AnyArray
    """As it was before the update."""
    weight: AnyArray
    """1 for valid rows, else 0."""


class Gradients(NamedTuple):
    """What a minibatch gives: gradients of the summed loss by the outputs, and its sums:
    rows, policy loss, value loss, entropy, then the agent's own."""

    d_policy: AnyArray
    d_value: AnyArray
    sums: AnyArray


def evaluate(head: Head, outputs: AnyArray, taken: AnyArray) -> Evaluated:
    """The head's distribution at the actions taken."""
    if isinstance(head, CategoricalHead):
        return evaluate_categorical(outputs, taken, head.nvec)
    return evaluate_gaussian(outputs, taken)


def combine(
    head: Head,
    batch: Minibatch,
    evaluated: Evaluated,
    policy: RowLoss,
    value: RowLoss,
    value_coefficient: float,
    entropy_coefficient: float,
    extra: tuple[AnyArray, ...],
) -> Gradients:
    """Gradients of  sum(policy loss) + value_coefficient * sum(value loss) - entropy_coefficient * sum(entropy)."""
    d_entropy = -entropy_coefficient * batch.weight if entropy_coefficient else None
    if isinstance(head, CategoricalHead):
        d_policy = categorical_gradient(evaluated, batch.taken, policy.gradient, d_entropy)
    else:
        d_policy = gaussian_gradient(evaluated, policy.gradient, d_entropy)
    rows = (batch.weight, policy.loss, value.loss, evaluated.entropy * batch.weight, *extra)
    xp = namespace(batch.weight)
    sums = xp.stack(rows).sum(1)
    return Gradients(d_policy, value_coefficient * value.gradient, sums)


def actor_critic_objective(
    head: Head, outputs: Outputs, batch: Minibatch, value_coefficient: float, entropy_coefficient: float
) -> Gradients:
    """Policy gradient with a baseline, value error and entropy bonus, as sums over the minibatch's valid rows."""
    evaluated = evaluate(head, outputs.policy, batch.taken)
    policy = policy_gradient(evaluated.log_prob, batch.advantage, batch.weight)
    value = value_error(outputs.value, batch.returns, batch.weight)
    return combine(head, batch, evaluated, policy, value, value_coefficient, entropy_coefficient, ())
