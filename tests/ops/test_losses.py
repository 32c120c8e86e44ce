"""Losses by hand, and their gradients against autograd on the textbook formula."""

import math

import numpy as np
import pytest
import torch

from whorl.ops.losses import clipped_value_error, policy_gradient, ppo_clip, value_error


def row(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float32)


def test_ppo_clip_by_hand() -> None:
    # Ratios 1.5 and 0.5 with both signs of the advantage; the last row is not valid.
    log_ratio = row(*(math.log(x) for x in (1.5, 1.5, 0.5, 0.5, 1.1, 1.5)))
    loss = ppo_clip(log_ratio, row(0, 0, 0, 0, 0, 0), row(2, -2, 2, -2, 1, 1), row(1, 1, 1, 1, 1, 0), 0.2)
    np.testing.assert_allclose(loss.loss, row(-2.4, 3.0, -1.0, 1.6, -1.1, 0), rtol=1e-6)
    np.testing.assert_allclose(loss.gradient, row(0, 3.0, -1.0, 0, -1.1, 0), rtol=1e-6)
    np.testing.assert_array_equal(loss.clipped, row(1, 1, 1, 1, 0, 0))
    np.testing.assert_allclose(loss.kl[:2], 0.5 - math.log(1.5), rtol=1e-6)
    assert loss.kl[5] == 0


def test_value_errors_by_hand() -> None:
    free = value_error(row(3, 3), row(1, 1), row(1, 0))
    np.testing.assert_array_equal(free.loss, row(4, 0))
    np.testing.assert_array_equal(free.gradient, row(4, 0))
    # The first moved past the clip towards the return (the bounded error counts, flat), the second away from it.
    clipped = clipped_value_error(row(3, 3), row(5, 2), row(1, 1), row(1, 1), 0.5)
    np.testing.assert_array_equal(clipped.loss, row(3.5**2, 4))
    np.testing.assert_array_equal(clipped.gradient, row(0, 4))


def test_policy_gradient_by_hand() -> None:
    loss = policy_gradient(row(-1, -2), row(3, 5), row(1, 0))
    np.testing.assert_array_equal(loss.loss, row(3, 0))
    np.testing.assert_array_equal(loss.gradient, row(-3, 0))


def random_rows(count: int) -> list[torch.Tensor]:
    torch.manual_seed(0)
    rows = [torch.randn(64, dtype=torch.float64) * 0.5 for _ in range(count)]
    return [*rows, (torch.rand(64) < 0.8).double()]


def test_ppo_gradient_is_autograds() -> None:
    log_prob, old, advantage, weight = random_rows(3)
    log_prob.requires_grad_()
    ratio = (log_prob - old).exp()
    textbook = -(weight * torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)).sum()
    textbook.backward()
    loss = ppo_clip(log_prob.detach(), old, advantage, weight, 0.2)
    torch.testing.assert_close(loss.loss.sum(), textbook.detach())
    torch.testing.assert_close(loss.gradient, log_prob.grad)


def test_clipped_value_gradient_is_autograds() -> None:
    value, old, target, weight = random_rows(3)
    value.requires_grad_()
    bounded = old + (value - old).clamp(-0.3, 0.3)
    textbook = (weight * torch.max((value - target) ** 2, (bounded - target) ** 2)).sum()
    textbook.backward()
    loss = clipped_value_error(value.detach(), old, target, weight, 0.3)
    torch.testing.assert_close(loss.loss.sum(), textbook.detach())
    torch.testing.assert_close(loss.gradient, value.grad)


def test_numpy_and_torch_agree() -> None:
    rows = [tensor.float() for tensor in random_rows(3)]
    for in_torch, in_numpy in zip(ppo_clip(*rows, 0.2), ppo_clip(*(r.numpy() for r in rows), 0.2), strict=True):
        np.testing.assert_allclose(in_torch.numpy(), in_numpy, atol=1e-6)


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="one shape"):
        value_error(row(1, 2), row(1), row(1, 1))
