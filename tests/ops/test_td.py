"""Action-value learning on literal numbers, in numpy and in torch."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from whorl.ops.td import best_value, dueling, dueling_gradient, huber, td_target

both = pytest.mark.parametrize("kind", ["numpy", "torch"])


def array(kind: str, values: list) -> object:
    return np.array(values, np.float32) if kind == "numpy" else torch.tensor(values)


@both
def test_dueling_takes_the_mean_advantage_off(kind: str) -> None:
    q = dueling(array(kind, [[1.0, 0.0], [2.0, 0.0], [6.0, 3.0]]), array(kind, [10.0, -1.0]))
    assert_allclose(q, [[8.0, -2.0], [9.0, -2.0], [13.0, 1.0]])


def test_the_gradient_of_dueling_is_that_of_autograd() -> None:
    advantage, value = torch.randn(3, 5, requires_grad=True), torch.randn(5, requires_grad=True)
    by_q = torch.randn(3, 5)
    dueling(advantage, value).backward(by_q)
    by_advantage, by_value = dueling_gradient(by_q)
    assert_allclose(by_advantage, advantage.grad, rtol=1e-5, atol=1e-6)
    assert_allclose(by_value, value.grad, rtol=1e-5, atol=1e-6)


@both
def test_double_learning_values_what_the_other_network_chose(kind: str) -> None:
    target = array(kind, [[1.0, 5.0, 0.0], [3.0, 4.0, 0.0]])
    online = array(kind, [[9.0, 1.0, 2.0], [8.0, 2.0, 2.0]])
    assert_allclose(best_value(target, online), [1.0, 4.0, 0.0])
    assert_allclose(best_value(target, target), [3.0, 5.0, 0.0])


@both
def test_targets(kind: str) -> None:
    numbers = ([1.0, 2.0, 3.0], [0.9, 0.0, 0.81], [10.0, 10.0, -10.0])
    assert_allclose(td_target(*(array(kind, values) for values in numbers)), [10.0, 2.0, -5.1], rtol=1e-6)


@both
def test_huber_on_both_sides_of_delta(kind: str) -> None:
    error, weight = array(kind, [0.5, -0.5, 3.0, -3.0, 2.0]), array(kind, [1.0, 2.0, 1.0, 0.5, 0.0])
    loss = huber(error, weight, 1.0)
    assert_allclose(loss.loss, [0.125, 0.25, 2.5, 1.25, 0.0])
    assert_allclose(loss.gradient, [0.5, -1.0, 1.0, -0.5, 0.0])
    squared = huber(error, weight, 0.0)
    assert_allclose(squared.loss, [0.125, 0.25, 4.5, 2.25, 0.0])
    assert_allclose(squared.gradient, [0.5, -1.0, 3.0, -1.5, 0.0])
