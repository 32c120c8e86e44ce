"""Interquartile means, intervals and fits against numbers computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from whorl.studies.stats import (
    Estimate,
    SpeedUp,
    band,
    difference,
    estimate,
    fit_speed_up,
    interquartile_mean,
    ratio,
    speed_up_terms,
    widening,
)


@pytest.mark.parametrize(
    ("values", "middle"),
    [
        ([7.0], 7.0),
        ([1.0, 3.0], 2.0),
        ([4.0, 1.0, 3.0, 2.0], 2.5),
        ([0.0, 1.0, 2.0, 3.0, 10.0], 2.0),  # (0.75 * 1 + 2 + 0.75 * 3) / 2.5
        ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 800.0], 4.5),
    ],
)
def test_the_middle_half_counts(values: list[float], middle: float) -> None:
    assert interquartile_mean(values) == pytest.approx(middle)


def test_rows_are_taken_apart() -> None:
    assert interquartile_mean(np.array([[1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 30.0, 40.0]])).tolist() == [2.5, 25.0]


def test_an_interval_of_equal_values_is_a_point_and_of_others_holds_their_middle() -> None:
    assert estimate([3.0, 3.0, 3.0]) == Estimate(3.0, 3.0, 3.0, 3)
    found = estimate([1.0, 2.0, 3.0, 4.0])
    assert found.value == 2.5
    assert found.low < 1.5 < 2.5 < 3.5 < found.high, "four say little"


@pytest.mark.parametrize("seeds", [3, 4, 5, 10])
def test_intervals_cover_what_they_should(seeds: int) -> None:
    """Of 300 samples around 0, and of 300 differences of two, 95 % or more have an interval that holds 0."""
    rng = np.random.default_rng(seeds)

    def sample() -> list[float]:
        return list(rng.standard_normal(seeds))

    alone = [estimate(sample()) for _ in range(300)]
    apart = [difference(sample(), sample()) for _ in range(300)]
    for found in (alone, apart):
        assert 276 <= sum(one.low <= 0 <= one.high for one in found) < 300, "92 %: chance is left some room"


def test_two_sides_are_compared() -> None:
    assert ratio([2.0, 2.0], [4.0]) == Estimate(0.5, 0.5, 0.5, 1)
    assert difference([5.0, 5.0, 5.0], [4.0, 4.0]) == Estimate(1.0, 1.0, 1.0, 2)
    assert ratio([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]).low < 1 < ratio([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]).high


def test_a_share_of_the_time_is_a_percentage_saved() -> None:
    saved = Estimate(0.25, 0.2, 0.4, 3).percent_saved()
    assert (saved.value, saved.low, saved.high) == pytest.approx((75.0, 60.0, 80.0))


def test_a_band_lies_around_the_middle_of_curves() -> None:
    middle, low, high = band(np.array([[0.0, 10.0], [1.0, 20.0], [2.0, 30.0]]))
    assert middle == pytest.approx([1.0, 20.0])
    assert (low <= middle).all()
    assert (middle <= high).all()
    alone = [estimate(column) for column in ([0.0, 1.0, 2.0], [10.0, 20.0, 30.0])]
    assert low == pytest.approx([one.low for one in alone], rel=1e-9), "as of any three numbers"
    assert high == pytest.approx([one.high for one in alone], rel=1e-9)
    assert (low[1], high[1]) == pytest.approx((20 - 10 * widening(3), 20 + 10 * widening(3)))


def test_the_terms_of_a_speed_up_are_found_again() -> None:
    true = SpeedUp(0.05, 0.002)
    workers = [1, 2, 4, 8, 16]
    found = fit_speed_up(workers, list(true.at(np.array(workers))))
    assert (found.contention, found.coherence) == pytest.approx((0.05, 0.002))
    assert true.at(4) == pytest.approx(4 / (1 + 0.05 * 3 + 0.002 * 12))


def test_intervals_of_the_terms_cover_what_they_should() -> None:
    """Of 60 samples of three seeds, rates with 3 % of noise."""
    true, rng, sizes = SpeedUp(0.05, 0.002), np.random.default_rng(1), (1, 2, 4, 8, 16)
    held = np.zeros(2, int)
    for _ in range(60):
        rates = {n: list(500 * true.at(n) * (1 + 0.03 * rng.standard_normal(3))) for n in sizes}
        contention, coherence = speed_up_terms(rates, resamples=100)
        held += (
            contention.low <= true.contention <= contention.high,
            coherence.low <= true.coherence <= coherence.high,
        )
        assert min(contention.low, coherence.low) >= 0
        assert contention.seeds == 3
    assert (held >= 57).all(), held


def test_a_speed_up_has_no_negative_terms() -> None:
    assert fit_speed_up([1, 2, 4], [1.0, 2.0, 4.0]) == SpeedUp(0.0, 0.0)
    better_than_ideal = fit_speed_up([1, 2, 4, 8], [1.0, 2.2, 4.4, 8.0])
    assert better_than_ideal.contention >= 0
    assert better_than_ideal.coherence >= 0
