"""Noise and the squashed Gaussian on numbers worked out by hand, and against torch's own."""

import math

import numpy as np
import pytest
import torch
from torch import distributions as reference

from whorl.ops.bounded import (
    LOG_STD_HIGH,
    LOG_STD_LOW,
    ornstein_uhlenbeck,
    smoothed,
    squashed_gaussian,
    squashed_gaussian_gradient,
)
from whorl.ops.sampling import normal_from


def test_ornstein_uhlenbeck_by_hand() -> None:
    x = np.array([[1.0, -2.0]], np.float32)
    moved = ornstein_uhlenbeck(x, np.array([[0.5, 1.0]], np.float32), theta=0.15, sigma=0.2)
    np.testing.assert_allclose(moved, [[0.85 + 0.1, -1.7 + 0.2]], rtol=1e-6)
    assert moved.dtype == np.float32


def test_ornstein_uhlenbeck_settles_at_its_known_variance() -> None:
    """x = (1 - k) x + s n has variance s^2 / (1 - (1 - k)^2) and correlation 1 - k from one step to the next."""
    rng, x, seen = np.random.default_rng(0), np.zeros((2000, 1), np.float32), []
    for _ in range(400):
        x = ornstein_uhlenbeck(x, rng.standard_normal(x.shape).astype(np.float32), 0.15, 0.3)
        seen.append(x[:, 0])
    late = np.array(seen[100:])
    assert late.var() == pytest.approx(0.09 / (1 - 0.85**2), rel=0.03)
    assert np.mean(late[1:] * late[:-1]) / late.var() == pytest.approx(0.85, abs=0.01)


def test_smoothing_by_hand() -> None:
    action = np.array([[0.0, 0.9, -0.5, -0.9]], np.float32)
    normal = np.array([[1.0, 1.0, 9.0, -9.0]], np.float32)
    np.testing.assert_allclose(smoothed(action, normal, 0.2, 0.5), [[0.2, 1.0, 0.0, -1.0]], atol=1e-7)


def test_a_squashed_gaussian_by_hand() -> None:
    """mean 0, std 1, normal 0.5: a = tanh(0.5) = 0.462117, log p = -0.125 - 0.918939 - log(1 - a^2) = -0.803718."""
    sample = squashed_gaussian(np.zeros((2, 1)), np.array([[0.5]]))
    assert sample.action[0, 0] == pytest.approx(0.46211716)
    assert sample.log_prob[0] == pytest.approx(-0.125 - 0.91893853 + 0.24022896, abs=1e-6)
    gradient = squashed_gaussian_gradient(sample, np.array([[1.0]]), np.array([1.0]))
    d_u = (1 - 0.46211716**2) + 2 * 0.46211716
    np.testing.assert_allclose(gradient[:, 0], [d_u, 0.5 * d_u - 1], rtol=1e-6)


def test_squashed_gaussian_against_torch() -> None:
    torch.manual_seed(4)
    outputs = torch.randn(6, 40, dtype=torch.float64)
    outputs[3:, :4] = torch.tensor([-30.0, 5.0, 2.5, -21.0]).double()
    outputs.requires_grad_()
    normal = torch.randn(3, 40, dtype=torch.float64)
    log_std = outputs[3:].clamp(LOG_STD_LOW, LOG_STD_HIGH)
    inner = outputs[:3] + log_std.exp() * normal
    squash = reference.TanhTransform(cache_size=1)
    action = squash(inner)
    base = reference.Normal(outputs[:3], log_std.exp())
    log_prob = (base.log_prob(inner) - squash.log_abs_det_jacobian(inner, action)).sum(0)
    d_action, d_log_prob = torch.randn(3, 40).double(), torch.randn(40).double()
    ((d_action * action).sum() + (d_log_prob * log_prob).sum()).backward()
    sample = squashed_gaussian(outputs.detach(), normal)
    torch.testing.assert_close(sample.action, action.detach())
    torch.testing.assert_close(sample.log_prob, log_prob.detach())
    torch.testing.assert_close(squashed_gaussian_gradient(sample, d_action, d_log_prob), outputs.grad)
    in_numpy = squashed_gaussian(outputs.detach().numpy(), normal.numpy())
    np.testing.assert_allclose(in_numpy.log_prob, sample.log_prob)


def test_a_saturated_action_has_a_finite_probability() -> None:
    sample = squashed_gaussian(np.array([[50.0], [0.0]], np.float32), np.zeros((1, 1), np.float32))
    assert sample.action[0, 0] == 1.0
    assert sample.log_prob[0] == pytest.approx(-0.5 * math.log(2 * math.pi) - 2 * (math.log(2) - 50), rel=1e-6)


def test_the_density_of_a_squashed_gaussian_integrates_to_one() -> None:
    normal = np.linspace(-8, 8, 20001)[None]
    outputs = np.concatenate([np.full_like(normal, 0.3), np.full_like(normal, -0.5)])
    sample = squashed_gaussian(outputs, normal)
    density, at = np.exp(sample.log_prob), sample.action[0]
    area = np.sum((density[1:] + density[:-1]) / 2 * np.diff(at))
    assert area == pytest.approx(1, abs=1e-4)


def test_normal_numbers_by_hand() -> None:
    uniforms = np.array([[math.exp(-0.5), 0.25, 0.5, 0.5]], np.float32)
    expected = [0.0, -math.sqrt(2 * math.log(2)), 1.0]  # cos of both pairs, then sin
    np.testing.assert_allclose(normal_from(uniforms, 3)[0], expected, atol=1e-6)
