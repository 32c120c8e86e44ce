"""Distributions by hand, against torch's own, and sampling against both."""

import math

import numpy as np
import pytest
import torch
from torch import distributions as reference

from whorl.ops.distributions import categorical_gradient, evaluate_categorical, evaluate_gaussian, gaussian_gradient
from whorl.ops.noise import uniform
from whorl.ops.sampling import sample_categorical, sample_gaussian


def test_a_categorical_by_hand() -> None:
    logits = np.log(np.array([[0.25], [0.75]], np.float32))
    evaluated = evaluate_categorical(logits, np.array([[0], [1]], np.float32), (2,))
    assert evaluated.log_prob[0] == pytest.approx(math.log(0.75))
    assert evaluated.entropy[0] == pytest.approx(-0.25 * math.log(0.25) - 0.75 * math.log(0.75))
    gradient = categorical_gradient(evaluated, np.array([[0], [1]], np.float32), np.array([2.0], np.float32), None)
    np.testing.assert_allclose(gradient[:, 0], [-0.5, 0.5], rtol=1e-6)


def test_a_gaussian_by_hand() -> None:
    outputs = np.array([[1.0], [math.log(2)]], np.float32)
    evaluated = evaluate_gaussian(outputs, np.array([[5.0]], np.float32))
    assert evaluated.log_prob[0] == pytest.approx(-2 - math.log(2) - 0.5 * math.log(2 * math.pi))
    assert evaluated.entropy[0] == pytest.approx(0.5 * math.log(2 * math.pi * math.e) + math.log(2))
    gradient = gaussian_gradient(evaluated, np.array([1.0], np.float32), np.array([10.0], np.float32))
    np.testing.assert_allclose(gradient[:, 0], [1.0, 3.0 + 10.0], rtol=1e-6)


@pytest.mark.parametrize("nvec", [(3,), (2, 4, 3)])
def test_categorical_against_torch(nvec: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    logits = torch.randn(sum(nvec), 50, dtype=torch.float64, requires_grad=True)
    actions = [torch.randint(n, (50,)) for n in nvec]
    chosen = torch.cat([torch.nn.functional.one_hot(a, n).T for a, n in zip(actions, nvec, strict=True)]).double()
    parts = [reference.Categorical(logits=block.T) for block in logits.split(nvec)]
    log_prob = sum(part.log_prob(action) for part, action in zip(parts, actions, strict=True))
    entropy = sum(part.entropy() for part in parts)
    d_log_prob, d_entropy = torch.randn(50).double(), torch.randn(50).double()
    (log_prob * d_log_prob + entropy * d_entropy).sum().backward()
    evaluated = evaluate_categorical(logits.detach(), chosen, nvec)
    torch.testing.assert_close(evaluated.log_prob, log_prob.detach())
    torch.testing.assert_close(evaluated.entropy, entropy.detach())
    torch.testing.assert_close(categorical_gradient(evaluated, chosen, d_log_prob, d_entropy), logits.grad)
    in_numpy = evaluate_categorical(logits.detach().numpy(), chosen.numpy(), nvec)
    np.testing.assert_allclose(in_numpy.log_prob, evaluated.log_prob)


def test_gaussian_against_torch() -> None:
    torch.manual_seed(2)
    outputs = torch.randn(6, 40, dtype=torch.float64, requires_grad=True)
    actions = torch.randn(3, 40, dtype=torch.float64)
    normal = reference.Normal(outputs[:3], outputs[3:].exp())
    log_prob, entropy = normal.log_prob(actions).sum(0), normal.entropy().sum(0)
    d_log_prob, d_entropy = torch.randn(40).double(), torch.randn(40).double()
    (log_prob * d_log_prob + entropy * d_entropy).sum().backward()
    evaluated = evaluate_gaussian(outputs.detach(), actions)
    torch.testing.assert_close(evaluated.log_prob, log_prob.detach())
    torch.testing.assert_close(evaluated.entropy, entropy.detach())
    torch.testing.assert_close(gaussian_gradient(evaluated, d_log_prob, d_entropy), outputs.grad)


def test_categorical_samples_follow_their_probabilities() -> None:
    probabilities = np.array([0.1, 0.2, 0.7])
    logits = np.tile(np.log(probabilities).astype(np.float32) + 3, (20_000, 1))
    actions, log_prob = sample_categorical(logits, uniform(0, "t", np.arange(20_000), 0, 1, 1)[0, :, 0])
    frequencies = np.bincount(actions, minlength=3) / 20_000
    assert np.all(abs(frequencies - probabilities) < 4 * np.sqrt(probabilities / 20_000))
    np.testing.assert_allclose(log_prob, np.log(probabilities)[actions], atol=1e-5)


def test_extreme_uniforms_stay_in_range() -> None:
    logits = np.zeros((2, 3), np.float32)
    actions, _ = sample_categorical(logits, np.array([2**-24, 1 - 2**-24], np.float32))
    assert actions.tolist() == [0, 2]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_gaussian_samples_follow_their_moments(size: int) -> None:
    rows = 20_000
    mean = np.tile(np.arange(size, dtype=np.float32), (rows, 1))
    log_std = np.linspace(-1, 1, size).astype(np.float32)
    noise = uniform(0, "t", np.arange(rows), 0, 1, size + size % 2)[0]
    samples, log_density = sample_gaussian(mean, log_std, noise)
    assert samples.shape == (rows, size)
    z = (samples - mean) / np.exp(log_std)
    assert np.all(abs(z.mean(axis=0)) < 4 / np.sqrt(rows))
    assert np.all(abs(z.var(axis=0) - 1) < 4 * np.sqrt(2 / rows))
    assert np.all(abs(np.corrcoef(z.T).reshape(size, size) - np.eye(size)) < 4 / np.sqrt(rows) + 1e-6)
    expected = evaluate_gaussian(np.concatenate([mean.T, np.tile(log_std[:, None], rows)]), samples.T).log_prob
    np.testing.assert_allclose(log_density, expected, atol=1e-4)
