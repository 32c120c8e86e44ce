"""V-trace by hand, against its definition as a sum of products, and against what it becomes where every ratio is 1."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from whorl.ops.advantages import gae, n_step_returns
from whorl.ops.vtrace import vtrace


def column(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float32)[:, None]


def flags(*bits: int) -> np.ndarray:
    return np.array(bits, bool)[:, None]


def log(*ratios: float) -> np.ndarray:
    return np.log(column(*ratios))


def test_three_rows_by_hand() -> None:
    # Ratios 1/2, 4, 1; discount 1/2; both clipped at 1.
    # delta: 1/2 (1 + 2 - 2) = 1/2;  1 (2 + 1 - 4) = -1;  1 (4 + 4 - 2) = 6
    # E:     1/2 + 1/2 * 1/2 * 2 = 1;  -1 + 1/2 * 1 * 6 = 2;  6
    # A:     1 + 1/2 (4 + 2) - 2 = 2;  2 + 1/2 (2 + 6) - 4 = 2;  4 + 1/2 * 8 - 2 = 6
    advantages, returns, rho = vtrace(
        log(0.5, 4, 1), column(1, 2, 4), column(2, 4, 2, 8), flags(0, 0, 0), flags(0, 0, 0), flags(1, 1, 1, 1), 0.5
    )
    np.testing.assert_allclose(rho, column(0.5, 1, 1), rtol=1e-6)
    np.testing.assert_allclose(returns, column(3, 6, 8), rtol=1e-6)
    np.testing.assert_allclose(advantages, column(2, 2, 6), rtol=1e-6)


def test_rho_and_c_are_clipped_apart_and_lambda_shortens_the_trace() -> None:
    # rho: 3, 2.   delta: 3 (1 + 1 - 1) = 3;  2 (2 + 2 - 2) = 4.   c_0 = 1/2 * min(2, 3) = 1.
    # E_0 = 3 + 1/2 * 1 * 4 = 5.   A_0 = 1 + 1/2 (2 + 1/2 * 4) - 1 = 2;  A_1 = 2 + 1/2 * 4 - 2 = 2
    advantages, returns, rho = vtrace(
        log(3, 2), column(1, 2), column(1, 2, 4), flags(0, 0), flags(0, 0), flags(1, 1, 1), 0.5, 0.5, 4.0, 2.0
    )
    np.testing.assert_allclose(rho, column(3, 2), rtol=1e-6)
    np.testing.assert_allclose(returns, column(6, 6), rtol=1e-6)
    np.testing.assert_allclose(advantages, column(2, 2), rtol=1e-6)


def test_a_terminal_then_a_final_row_then_a_truncation() -> None:
    # As in the test of gae: row 2 is the final observation of the first episode, the tail row 5 that of the second.
    # delta: 1 (1 + 1.5 - 2) = 0.5;  1/2 (2 - 3) = -0.5;  -;  1 (4 + 1 - 1) = 4;  1/4 (1 + 3 - 2) = 0.5
    advantages, returns, rho = vtrace(
        log(1, 0.5, 9, 2, 0.25),
        column(1, 2, 0, 4, 1),
        column(2, 3, 10, 1, 2, 6),
        flags(0, 1, 0, 0, 0),
        flags(0, 0, 0, 0, 1),
        flags(1, 1, 0, 1, 1, 0),
        discount=0.5,
    )
    np.testing.assert_allclose(rho, column(1, 0.5, 0, 1, 0.25), rtol=1e-6)
    np.testing.assert_allclose(returns, column(2 + 0.5 - 0.25, 3 - 0.5, 0, 1 + 4 + 0.25, 2 + 0.5), rtol=1e-6)
    np.testing.assert_allclose(advantages, column(0.5 - 0.25, -1, 0, 4 + 0.25, 2), rtol=1e-6)


def test_a_fault_only_bootstraps_and_a_huge_ratio_is_clipped() -> None:
    advantages, returns, rho = vtrace(
        column(1000, 1000, -1000),
        column(1, 0, 3),
        column(2, 4, 1, 2),
        flags(0, 0, 0),
        flags(0, 0, 0),
        flags(1, 0, 1, 1),
        0.5,
    )
    np.testing.assert_array_equal(rho, column(1, 0, 0))
    np.testing.assert_array_equal(returns, column(3, 0, 1))
    np.testing.assert_array_equal(advantages, column(1, 0, 3))


ROWS, LANES = 9, 2
numbers = st.floats(-4, 4, width=32, allow_subnormal=False)
bits = st.sampled_from([False] * 5 + [True])


@st.composite
def streams(draw) -> tuple[np.ndarray, ...]:
    """log ratios, rewards, values, terminated, truncated, valid: an ended episode is followed by a row not valid."""
    log_ratio, r = (draw(arrays(np.float32, (ROWS, LANES), elements=numbers)) for _ in range(2))
    v = draw(arrays(np.float32, (ROWS + 1, LANES), elements=numbers))
    terminated, truncated = (draw(arrays(bool, (ROWS, LANES), elements=bits)) for _ in range(2))
    valid = ~draw(arrays(bool, (ROWS + 1, LANES), elements=bits))
    terminated, truncated = terminated & valid[:-1], truncated & valid[:-1] & ~terminated
    valid[1:] &= ~(terminated | truncated)
    return log_ratio, r, v, terminated, truncated, valid


def defined(stream, gamma: float, lambda_: float, rho_bar: float, c_bar: float) -> tuple[np.ndarray, ...]:
    """Equation 1 of the paper, row by row, as a sum over later rows of products of c; in Python's own floats."""
    log_ratio, r, v, terminated, truncated, valid = (array.tolist() for array in stream)
    advantages, returns, rhos = (np.zeros((ROWS, LANES)) for _ in range(3))

    def flows(t: int, b: int) -> bool:
        return t + 1 < ROWS and not (terminated[t][b] or truncated[t][b]) and valid[t][b] and valid[t + 1][b]

    def error(t: int, b: int) -> float:
        """R_t - v_t."""
        total, product, k = 0.0, 1.0, t
        while True:
            ratio = np.exp(log_ratio[k][b])
            after = 0.0 if terminated[k][b] else v[k + 1][b]
            total += gamma ** (k - t) * product * min(rho_bar, ratio) * (r[k][b] + gamma * after - v[k][b])
            if not flows(k, b):
                return total
            product *= lambda_ * min(c_bar, ratio)
            k += 1

    for b in range(LANES):
        for t in range(ROWS):
            if valid[t][b]:
                after = 0.0 if terminated[t][b] else v[t + 1][b]
                mixed = after + (lambda_ * error(t + 1, b) if flows(t, b) else 0.0)
                advantages[t, b] = r[t][b] + gamma * mixed - v[t][b]
                returns[t, b] = v[t][b] + error(t, b)
                rhos[t, b] = min(rho_bar, np.exp(log_ratio[t][b]))
    return advantages, returns, rhos


@given(streams(), st.floats(0, 1), st.floats(0, 1), st.floats(0.1, 5), st.floats(0.1, 2))
def test_it_is_what_the_paper_defines(stream, gamma: float, lambda_: float, rho_bar: float, c_bar: float) -> None:
    got = vtrace(*stream, gamma, lambda_, rho_bar, c_bar)
    for ours, expected in zip(got, defined(stream, gamma, lambda_, rho_bar, c_bar), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-3, atol=1e-3 * max(1.0, np.abs(expected).max()))


@given(streams(), st.floats(0, 1), st.floats(0, 1))
def test_where_every_ratio_is_one_it_is_the_n_step_return_and_gae(stream, gamma: float, lambda_: float) -> None:
    _, *rows = stream
    ones = np.zeros((ROWS, LANES), np.float32)
    returns = n_step_returns(*rows, gamma, ROWS)
    np.testing.assert_allclose(vtrace(ones, *rows, gamma).returns, returns, atol=1e-4)
    ours, estimated = vtrace(ones, *rows, gamma, lambda_), gae(*rows, gamma, lambda_)
    np.testing.assert_allclose(ours.returns, estimated.returns, atol=1e-4)
    np.testing.assert_allclose(ours.advantages, estimated.advantages, atol=1e-4)


def test_wrong_shapes_are_refused_at_the_door() -> None:
    with pytest.raises(ValueError, match="one shape"):
        vtrace(log(1), column(1, 2), column(1, 2, 3), flags(0, 0), flags(0, 0), flags(1, 1, 1), 0.9)
    with pytest.raises(ValueError, match=r"v_t must be of shape \(3, 1\)"):
        vtrace(log(1, 1), column(1, 2), column(1, 2), flags(0, 0), flags(0, 0), flags(1, 1, 1), 0.9)
