"""Flat optimisers against torch's own and against their formula."""

import pytest
import torch

from whorl.ops.optimisers import adam_, rmsprop_


def test_adam_is_torchs() -> None:
    torch.manual_seed(0)
    ours = torch.randn(50)
    theirs = torch.nn.Parameter(ours.clone())
    optimiser = torch.optim.Adam([theirs], lr=1e-2, eps=1e-5)
    mean, square, count = torch.zeros(50), torch.zeros(50), torch.zeros(())
    for _ in range(20):
        count += 1
        gradient = torch.randn(50)
        theirs.grad = gradient.clone()
        optimiser.step()
        adam_(ours, gradient, mean, square, count, 1e-2, 1e-5)
    torch.testing.assert_close(ours, theirs.detach(), atol=1e-6, rtol=1e-5)


def test_rmsprop_by_hand() -> None:
    parameters, square = torch.tensor([1.0]), torch.tensor([1.0])
    rmsprop_(parameters, torch.tensor([3.0]), square, learning_rate=0.1, eps=0.0, decay=0.5)
    assert square.item() == 5.0
    assert parameters.item() == pytest.approx(1 - 0.1 * 3 / 5**0.5)


def test_adam_by_hand() -> None:
    """First step: m = 0.1 g, v = 0.001 g^2, both corrected to g and g^2: the step is lr * g / (|g| + eps)."""
    parameters, mean, square = torch.tensor([1.0, 1.0]), torch.zeros(2), torch.zeros(2)
    adam_(parameters, torch.tensor([3.0, -0.5]), mean, square, torch.tensor(1.0), 0.1, 0.5)
    assert parameters.tolist() == pytest.approx([1 - 0.1 * 3 / 3.5, 1 + 0.1 * 0.5 / 1.0])
    assert mean.tolist() == pytest.approx([0.3, -0.05])
    assert square.tolist() == pytest.approx([0.009, 0.00025])
