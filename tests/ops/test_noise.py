"""Stateless noise: its quality, and that each number depends on nothing but its place."""

import numpy as np
import pytest

from whorl.ops.noise import generator, uniform

LANES = np.arange(64)


def test_numbers_lie_strictly_inside_and_are_uniform() -> None:
    u = uniform(1, "act", LANES, 0, 500, 4).astype(np.float64)
    assert u.shape == (500, 64, 4)
    assert u.min() > 0
    assert u.max() < 1
    n = u.size
    assert abs(u.mean() - 0.5) < 4 * np.sqrt(1 / 12 / n)
    assert abs(u.var() - 1 / 12) < 4 * np.sqrt(1 / 180 / n)
    counts, _ = np.histogram(u, bins=256, range=(0, 1))
    chi_square = ((counts - n / 256) ** 2 / (n / 256)).sum()
    assert abs(chi_square - 255) < 4 * np.sqrt(2 * 255)


def test_the_extremes_of_the_bits_stay_inside() -> None:
    smallest, largest = (np.float32(k) + np.float32(0.5) for k in (0, 2**23 - 1))
    assert smallest * np.float32(2.0**-23) > 0
    assert largest * np.float32(2.0**-23) < 1


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_neighbours_are_not_correlated(axis: int) -> None:
    u = np.moveaxis(uniform(7, "act", LANES, 1000, 300, 8).astype(np.float64), axis, 0) - 0.5
    pairs = u[1:] * u[:-1]
    assert abs(pairs.mean() * 12) < 4 / np.sqrt(pairs.size)
    squares = (u[1:] ** 2 - 1 / 12) * (u[:-1] ** 2 - 1 / 12)
    assert abs(squares.mean() * 180) < 4 / np.sqrt(squares.size)


def test_pairs_fill_the_square_evenly() -> None:
    u = uniform(3, "act", LANES, 0, 2000, 2)
    counts, _, _ = np.histogram2d(u[:, :, 0].ravel(), u[:, :, 1].ravel(), bins=16, range=[[0, 1], [0, 1]])
    expected = u.shape[0] * u.shape[1] / 256
    assert abs(((counts - expected) ** 2 / expected).sum() - 255) < 4 * np.sqrt(2 * 255)


@pytest.mark.parametrize(("other_seed", "other_purpose"), [(2, "act"), (1, "reset"), (1 << 40, "act")])
def test_seeds_and_purposes_are_independent(other_seed: int, other_purpose: str) -> None:
    one, other = uniform(1, "act", LANES, 0, 300, 1), uniform(other_seed, other_purpose, LANES, 0, 300, 1)
    assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 4 / np.sqrt(one.size)


def test_each_number_depends_only_on_its_place() -> None:
    whole = uniform(5, "act", np.arange(10), 0, 20, 3)
    np.testing.assert_array_equal(uniform(5, "act", np.array([7, 2]), 0, 20, 3), whole[:, [7, 2]])
    np.testing.assert_array_equal(uniform(5, "act", np.arange(10), 13, 4, 3), whole[13:17])
    np.testing.assert_array_equal(uniform(5, "act", np.arange(10), 0, 20, 1), whole[:, :, :1])


def test_the_numbers_never_change() -> None:
    numbers = uniform(1, "act", np.array([0, 1]), 0, 2, 1).ravel()
    expected = [0.12996143102645874, 0.18693846464157104, 0.11326175928115845, 0.07034748792648315]
    np.testing.assert_array_equal(numbers, np.array(expected, np.float32))


def test_a_generator_follows_from_its_key() -> None:
    assert generator(1, 2, 3).integers(1 << 30) == generator(1, 2, 3).integers(1 << 30)
    assert generator(1, 2, 3).integers(1 << 30) != generator(1, 2, 4).integers(1 << 30)
