"""Advantages by hand, and against a slow reference."""

import numpy as np
import pytest

from whorl.ops.advantages import gae, n_step_returns


def column(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float32)[:, None]


def flags(*bits: int) -> np.ndarray:
    return np.array(bits, bool)[:, None]


def test_a_terminal_then_a_final_row_then_a_truncation() -> None:
    # Row 2 is the final observation of the first episode; the tail row 5 is that of the second.
    advantages, returns = gae(
        column(1, 2, 0, 4, 1),
        column(2, 3, 10, 1, 2, 6),
        flags(0, 1, 0, 0, 0),
        flags(0, 0, 0, 0, 1),
        flags(1, 1, 0, 1, 1, 0),
        discount=0.5,
        lambda_=0.5,
    )
    np.testing.assert_array_equal(advantages, column(0.25, -1, 0, 4.5, 2))
    np.testing.assert_array_equal(returns, column(2.25, 2, 0, 5.5, 4))


def test_a_fault_only_bootstraps() -> None:
    advantages, returns = gae(
        column(1, 0, 3), column(2, 4, 1, 2), flags(0, 0, 0), flags(0, 0, 0), flags(1, 0, 1, 1), 0.5, 0.5
    )
    np.testing.assert_array_equal(advantages, column(1, 0, 3))
    np.testing.assert_array_equal(returns, column(3, 0, 4))


def test_lambda_one_gives_discounted_returns() -> None:
    _, returns = gae(column(1, 2, 4), column(9, 9, 9, 8), flags(0, 0, 0), flags(0, 0, 0), flags(1, 1, 1, 1), 0.5, 1.0)
    np.testing.assert_array_equal(returns, column(1 + 1 + 1 + 1, 2 + 2 + 2, 4 + 4))


def test_two_step_returns() -> None:
    returns = n_step_returns(
        column(1, 2, 4, 8),
        column(10, 20, 40, 80, 160),
        flags(0, 0, 1, 0),
        flags(0, 0, 0, 0),
        flags(1, 1, 1, 0, 1),
        0.5,
        2,
    )
    np.testing.assert_array_equal(returns, column(1 + 1 + 10, 2 + 2, 4, 0))


def random_stream(seed: int, rows: int, lanes: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    terminated, truncated = (rng.random((rows, lanes)) < 0.1 for _ in range(2))
    valid = rng.random((rows + 1, lanes)) < 0.9
    valid[1:] &= ~(terminated | truncated)
    reward, value = rng.standard_normal((rows, lanes)), rng.standard_normal((rows + 1, lanes))
    return reward.astype(np.float32), value.astype(np.float32), terminated, truncated, valid


@pytest.mark.parametrize("seed", range(5))
def test_gae_against_its_definition(seed: int) -> None:
    r, v, terminated, truncated, valid = random_stream(seed, 40, 3)
    advantages, returns = gae(r, v, terminated, truncated, valid, 0.9, 0.8)
    for b in range(3):
        for t in range(40):
            if not valid[t, b]:
                assert advantages[t, b] == returns[t, b] == 0
                continue
            expected, factor, k = 0.0, 1.0, t
            while True:
                after = 0.0 if terminated[k, b] else 0.9 * v[k + 1, b]
                expected += factor * (r[k, b] + after - v[k, b])
                if terminated[k, b] or truncated[k, b] or not valid[k + 1, b] or k == 39:
                    break
                k, factor = k + 1, factor * 0.9 * 0.8
            assert advantages[t, b] == pytest.approx(expected, abs=1e-5)
            assert returns[t, b] == pytest.approx(expected + v[t, b], abs=1e-5)


@pytest.mark.parametrize("n", [1, 3, 10])
def test_n_step_returns_against_their_definition(n: int) -> None:
    r, v, terminated, truncated, valid = random_stream(9, 30, 2)
    returns = n_step_returns(r, v, terminated, truncated, valid, 0.9, n)
    for b in range(2):
        for t in range(30):
            expected, k = 0.0, t
            while valid[t, b]:
                expected += 0.9 ** (k - t) * r[k, b]
                ended = terminated[k, b] or truncated[k, b] or not valid[k + 1, b] or k == 29
                if ended or k - t == n - 1:
                    expected += 0.9 ** (k - t + 1) * (0.0 if terminated[k, b] else v[k + 1, b])
                    break
                k += 1
            assert returns[t, b] == pytest.approx(expected, abs=1e-5)


def test_wrong_shapes_are_refused_at_the_door() -> None:
    with pytest.raises(ValueError, match=r"v_t must be of shape \(3, 1\)"):
        gae(column(1, 2), column(1, 2), flags(0, 0), flags(0, 0), flags(1, 1, 1), 0.9, 0.9)
    with pytest.raises(ValueError, match="one shape"):
        gae(column(1, 2), column(1, 2, 3), flags(0), flags(0, 0), flags(1, 1, 1), 0.9, 0.9)
