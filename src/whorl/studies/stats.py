"""Statistics of few runs: interquartile means, bootstrap intervals, and the fit of a speed-up.

The interquartile mean leaves out the lowest and the highest quarter, so that one lucky or unlucky seed does not decide;
intervals are percentiles over resampled seeds (Agarwal et al. 2021). Of few seeds these are too narrow: three numbers
drawn again and again never lie farther apart than the three did, and what is called 95 % holds the truth in 75 % of all
cases. So they are widened about the value, as Student's distribution is wider than the normal one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from whorl.types import Array

CONFIDENCE = 0.95
RESAMPLES = 4000
_NORMAL = 1.96
_STUDENT = (
    12.71,
    4.30,
    3.18,
    2.78,
    2.57,
    2.45,
    2.36,
    2.31,
    2.26,
    2.23,
    2.20,
    2.18,
    2.16,
    2.14,
    2.13,
    2.12,
    2.11,
    2.10,
    2.09,
)
"""Its quantile of 97.5 % for 1 degree of freedom and on; 2.09 is near enough for more."""


@dataclass(frozen=True)
class Estimate:
    """A number, and where it lies with 95 % confidence."""

    value: float
    low: float
    high: float
    seeds: int
    """Of the side that has fewer."""

    @property
    def interval(self) -> tuple[float, float] | None:
        """None of a single seed, which tells nothing of others."""
        return (self.low, self.high) if self.seeds > 1 else None

    def percent_saved(self) -> Estimate:
        """Of a share of the time that something takes: the percentage that it does not."""
        return Estimate(100 * (1 - self.value), 100 * (1 - self.high), 100 * (1 - self.low), self.seeds)


def interquartile_mean(values: Array | Sequence[float]) -> Array:
    """The mean of the middle half along the last axis; values at its borders count in part. [0, 1, 2, 3, 10] has 2."""
    ordered = np.sort(np.asarray(values, np.float64), axis=-1)
    count = ordered.shape[-1]
    places = np.arange(count)
    weights = np.clip(np.minimum(places + 1, 0.75 * count) - np.maximum(places, 0.25 * count), 0, None)
    mean: Array = np.asarray((ordered * weights).sum(axis=-1) / weights.sum())
    return mean


def resampled(values: Sequence[float] | Array, seed: int = 0, resamples: int = RESAMPLES) -> Array:
    """Drawn again with replacement: [resamples, n]."""
    values = np.asarray(values, np.float64)
    drawn: Array = values[np.random.default_rng(seed).integers(0, len(values), (resamples, len(values)))]
    return drawn


def estimate(values: Sequence[float]) -> Estimate:
    """The interquartile mean of some seeds."""
    value = float(interquartile_mean(values))
    low, high = _interval(interquartile_mean(resampled(values)), value, len(values))
    return Estimate(value, low, high, len(values))


def ratio(above: Sequence[float], below: Sequence[float]) -> Estimate:
    """Of two interquartile means."""
    return _between(above, below, lambda a, b: a / b)


def difference(first: Sequence[float], second: Sequence[float]) -> Estimate:
    """Of two interquartile means: first less second."""
    return _between(first, second, lambda a, b: a - b)


def band(heights: Array, resamples: int = 400) -> tuple[Array, Array, Array]:
    """Interquartile mean, lower and upper bound of curves: [seeds, points] each."""
    columns = np.random.default_rng(0).integers(0, len(heights), (resamples, len(heights)))
    again = interquartile_mean(np.moveaxis(heights[columns], 1, -1))
    edge, wider = 50 * (1 - CONFIDENCE), widening(len(heights))
    low, high = np.percentile(again, (edge, 100 - edge), axis=0)
    middle = interquartile_mean(heights.T)
    return middle, middle - wider * (middle - low), middle + wider * (high - middle)


def _between(first: Sequence[float], second: Sequence[float], rule: Callable[[Array, Array], Array]) -> Estimate:
    with np.errstate(divide="ignore", invalid="ignore"):  # nothing over nothing is no number, and no error
        value = float(rule(interquartile_mean(first), interquartile_mean(second)))
        again = rule(interquartile_mean(resampled(first, 0)), interquartile_mean(resampled(second, 1)))
        low, high = _interval(again, value, len(first), len(second))
    return Estimate(value, low, high, min(len(first), len(second)))


def widening(*seeds: int) -> float:
    """How many times wider the interval of so few (on each side) is to be than resampling makes it: by Student's
    quantile over the normal one, and by what the spread of a sample falls short of the true one."""
    freedom, fewest = sum(seeds) - len(seeds), min(seeds)
    if fewest < 2:
        return 1.0
    return _STUDENT[min(freedom, len(_STUDENT)) - 1] / _NORMAL * math.sqrt(fewest / (fewest - 1))


def _interval(values: Array, middle: float, *seeds: int) -> tuple[float, float]:
    edge, wider = 50 * (1 - CONFIDENCE), widening(*seeds)
    low, high = np.percentile(values, (edge, 100 - edge))
    return middle - wider * float(middle - low), middle + wider * float(high - middle)


def speed_up_terms(rates: Mapping[float, Sequence[float]], resamples: int = 1000) -> tuple[Estimate, Estimate]:
    """Contention and coherence of rates by size, whose smallest is the measure, with intervals from resampled seeds."""
    sizes = sorted(rates)
    unit = float(interquartile_mean(rates[sizes[0]]))
    fit = fit_speed_up(sizes, [float(interquartile_mean(rates[size])) / unit for size in sizes])
    drawn = np.stack([interquartile_mean(resampled(rates[n], i, resamples)) for i, n in enumerate(sizes)])
    again = [fit_speed_up(sizes, list(column / column[0])) for column in drawn.T]
    seeds = min(len(rates[size]) for size in sizes)
    found = []
    for term in ("contention", "coherence"):
        value: float = getattr(fit, term)
        low, high = _interval(np.array([getattr(one, term) for one in again]), value, seeds, seeds)
        found.append(Estimate(value, max(0.0, low), high, seeds))
    return found[0], found[1]


@dataclass(frozen=True)
class SpeedUp:
    """Gunther's law: N / (1 + contention (N - 1) + coherence N (N - 1))."""

    contention: float
    """Share of the work that cannot be done side by side."""
    coherence: float
    """What every pair costs."""

    def at(self, workers: Array | float) -> Array:
        """The speed-up of so many."""
        n = np.asarray(workers, np.float64)
        predicted: Array = n / (1 + self.contention * (n - 1) + self.coherence * n * (n - 1))
        return predicted


def fit_speed_up(workers: Sequence[float], speed_ups: Sequence[float]) -> SpeedUp:
    """By least squares of N / S - 1, which is linear in both terms; neither is below 0."""
    n, s = np.asarray(workers, np.float64), np.asarray(speed_ups, np.float64)
    terms = np.stack([n - 1, n * (n - 1)], axis=1)
    rest = n / s - 1
    both = np.linalg.lstsq(terms, rest, rcond=None)[0]
    if (both >= 0).all():
        return SpeedUp(float(both[0]), float(both[1]))
    alone = [max(0.0, float(term @ rest / max(term @ term, 1e-300))) for term in terms.T]
    candidates = [SpeedUp(alone[0], 0.0), SpeedUp(0.0, alone[1])]
    return min(candidates, key=lambda fit: float(np.square(terms @ (fit.contention, fit.coherence) - rest).sum()))
