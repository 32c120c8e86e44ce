"""Targets and losses of critics on numbers worked out by hand."""

import math

import numpy as np
import pytest
import torch

from whorl.ops.critics import clipped_double_q, critic_errors, soft_value, temperature_gradient
from whorl.ops.td import td_target

Q = np.array([[1.0, 5.0, -1.0], [2.0, 4.0, -3.0]], np.float32)


def test_targets_by_hand() -> None:
    reward, discount = np.array([1.0, 2.0, 3.0], np.float32), np.array([0.9, 0.0, 0.5], np.float32)
    np.testing.assert_array_equal(clipped_double_q(Q), [1.0, 4.0, -3.0])
    np.testing.assert_allclose(td_target(reward, discount, clipped_double_q(Q)), [1.9, 2.0, 1.5], rtol=1e-6)
    log_prob = np.array([-1.0, 0.5, 2.0], np.float32)
    np.testing.assert_allclose(soft_value(Q, log_prob, 0.2), [1.2, 3.9, -3.4], rtol=1e-6)


def test_td3_target_against_a_slow_loop() -> None:
    rng = np.random.default_rng(0)
    q, reward, ended = rng.standard_normal((2, 50)), rng.standard_normal(50), rng.random(50) < 0.3
    fast = td_target(reward, np.where(ended, 0.0, 0.99), clipped_double_q(q))
    for i in range(50):
        slow = reward[i] if ended[i] else reward[i] + 0.99 * min(q[0, i], q[1, i])
        assert fast[i] == pytest.approx(slow)


def test_critic_errors_by_hand() -> None:
    errors = critic_errors(Q, np.array([0.0, 4.0, -2.0], np.float32), np.array([1.0, 0.5, 1.0], np.float32))
    np.testing.assert_allclose(errors.loss, [1 + 4, 0.5 * (1 + 0), 1 + 1])
    np.testing.assert_allclose(errors.gradient, [[2, 1, 2], [4, 0, -2]])
    np.testing.assert_allclose(errors.error, [1.5, 0.5, 1.0])


def test_critic_errors_against_autograd() -> None:
    torch.manual_seed(3)
    q = torch.randn(2, 30, dtype=torch.float64, requires_grad=True)
    target, weight = torch.randn(30).double(), torch.rand(30).double()
    loss = (weight * (q - target) ** 2).sum()
    loss.backward()
    errors = critic_errors(q.detach(), target, weight)
    torch.testing.assert_close(errors.gradient, q.grad)
    assert float(errors.loss.sum()) == pytest.approx(float(loss.detach()))


def test_the_temperature_rises_while_entropy_is_too_low() -> None:
    """SAC's temperature loss -log(alpha) (log pi + H): entropy -log pi = 1 is below H = 3, so log(alpha) must grow."""
    log_alpha = torch.tensor(math.log(0.3), dtype=torch.float64, requires_grad=True)
    log_prob = torch.tensor([-1.0, -1.0, -4.0], dtype=torch.float64)
    (-log_alpha * (log_prob + 3.0)).sum().backward()
    gradient = temperature_gradient(log_prob, 3.0)
    np.testing.assert_allclose(gradient, [-2.0, -2.0, 1.0])
    assert log_alpha.grad is not None
    assert float(gradient.sum()) == pytest.approx(float(log_alpha.grad))


def test_shapes_are_checked() -> None:
    with pytest.raises(ValueError, match="one shape"):
        td_target(np.zeros(3), np.zeros(3), np.zeros((3, 1)))
    with pytest.raises(ValueError, match="target_t"):
        critic_errors(Q, np.zeros((3, 1)), np.zeros(3))
