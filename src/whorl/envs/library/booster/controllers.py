"""Baselines: the published regulator, one with feed-forward, and an oracle. Each serves any number of lanes.

controller.start(row)                          # the first signals [lanes, CHANNELS] of an episode
set_point = controller.decide(row, error)      # after each tick: that tick's signals, IMINER [lanes]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from whorl.envs.library.booster import plant, signals
from whorl.envs.library.booster.signals import B_VIMIN, BALANCE, DISTURBANCE, MDAT40, SUPERCYCLE_TICKS
from whorl.types import Array

PUBLISHED_ALPHA, PUBLISHED_GAMMA = 0.085, 7.535e-5
TUNED_ALPHA, TUNED_GAMMA = 0.065, 1e-3
"""The best of ``ALPHAS`` x ``GAMMAS``."""
ALPHAS = (0.0, 0.02, 0.035, 0.05, 0.065, 0.085, 0.1, 0.12)
GAMMAS = (0.0, 7.535e-5, 3e-4, 1e-3, 3e-3)

AHEAD_TICKS = plant.DEAD_TICKS + 1
"""Ticks from a decision to the first error that it changes."""


class Controller(Protocol):
    """Chooses the set point after each tick."""

    def start(self, row: Array, /) -> None: ...

    def decide(self, row: Array, error: Array, /) -> Array: ...


class Regulator:
    """Today's regulator: proportional, with a slow integral.

    beta_t = beta_(t-1) + gamma IMINER_t;  VIMIN_(t+1) = B_VIMIN_t - alpha IMINER_t - beta_t
    """

    def __init__(self, alpha: float = PUBLISHED_ALPHA, gamma: float = PUBLISHED_GAMMA) -> None:
        self.alpha, self.gamma = alpha, gamma
        self.beta: Array = np.zeros(0)

    def start(self, row: Array) -> None:
        """As after a long time: the integral balances the slow part of the disturbance."""
        self.beta = row[:, BALANCE] / plant.GAIN

    def decide(self, row: Array, error: Array) -> Array:
        """The next set point."""
        self.beta = self.beta + self.gamma * error
        return np.asarray(row[:, B_VIMIN] - self.alpha * error - self.beta)


class FeedForward:
    """Cancels the injector's load before it comes, from what is measured; a slow integral does the rest.

    The last readings of the injector's ramp tell where in its program it is, and so what its load will be.
    """

    def __init__(self, gamma: float = 4e-3, readings: int = 8) -> None:
        self._gamma, self._readings = gamma, readings
        ticks = np.arange(SUPERCYCLE_TICKS)[::-1, None]
        back, ahead = np.arange(1 - readings, 1), np.arange(AHEAD_TICKS + 1)
        self._windows = signals.PROGRAM[(ticks + back) % SUPERCYCLE_TICKS]
        self._loads = signals.LOAD[(ticks + ahead) % SUPERCYCLE_TICKS] - signals.MEAN_LOAD
        # Most windows come 41 times a supercycle: one of each is enough, the latest, for the spill comes first.
        _, kept = np.unique(self._windows, axis=0, return_index=True)
        self._windows, self._loads = self._windows[kept], self._loads[kept]

    def start(self, row: Array) -> None:
        """Nothing seen yet."""
        self._beta = row[:, BALANCE] / plant.GAIN
        self._seen = np.repeat(row[:, MDAT40, None], self._readings, axis=1)

    def decide(self, row: Array, error: Array) -> Array:
        """The set point that would cancel the load foreseen, through the inverse of supply and magnets."""
        self._seen = np.column_stack([self._seen[:, 1:], row[:, MDAT40]])
        distance = np.abs(self._seen[:, None] - self._windows).sum(axis=2)
        load = self._loads[distance.argmin(axis=1)] / plant.GAIN
        self._beta = self._beta + self._gamma * error
        return np.asarray(row[:, B_VIMIN] - self._beta + _lead(load[:, -3], load[:, -2], load[:, -1]))


class Oracle:
    """Knows the disturbance to come, ripple and all, and nothing of the measurement's noise: nobody does better."""

    def __init__(self, drawn: Array) -> None:
        self._drawn, self._tick = drawn, 0

    def start(self, _row: Array) -> None:
        """From the beginning."""
        self._tick = 0

    def decide(self, _row: Array, _error: Array) -> Array:
        """The set point that cancels the disturbance exactly."""
        self._tick += 1
        last = self._drawn.shape[1] - 1
        wanted = [
            coming[:, B_VIMIN] - coming[:, DISTURBANCE] / plant.GAIN
            for coming in (self._drawn[:, min(self._tick + later, last)] for later in range(AHEAD_TICKS))
        ]
        return _lead(*wanted)


def _lead(before: Array, now: Array, after: Array) -> Array:
    """The set point with which the magnets go from ``now`` to ``after``, having come from ``before``."""
    supply = before + (now - before) / plant.MAGNET_RESPONSE
    supply_after = now + (after - now) / plant.MAGNET_RESPONSE
    return np.asarray(supply + (supply_after - supply) / plant.SUPPLY_RESPONSE)


@dataclass(frozen=True)
class Score:
    """What a controller reaches."""

    error: float
    """Mean |IMINER|, A."""
    per_100_ticks: float
    """Mean return of 100 ticks, and its standard deviation over stretches of 100 ticks."""
    spread: float
    converged: float
    """Share of ticks with |IMINER| within 0.1 A."""

    @classmethod
    def of(cls, errors: Array) -> Score:
        """From IMINER [lanes, ticks]."""
        size = np.abs(errors)
        returns = -size[:, : size.shape[1] // 100 * 100].reshape(len(size), -1, 100).sum(axis=2)
        return cls(float(size.mean()), float(returns.mean()), float(returns.std()), float((size <= 0.1).mean()))


def draw_lanes(lanes: int, ticks: int, seed: int) -> Array:
    """Signals [lanes, ticks, CHANNELS]."""
    root = np.random.SeedSequence(seed)
    return signals.draw_signals([np.random.default_rng(child) for child in root.spawn(lanes)], ticks)


def regulate(controller: Controller, drawn: Array) -> tuple[Array, Array]:
    """IMINER and VIMIN [lanes, ticks] of a controller that has these signals [lanes, ticks, CHANNELS] to itself."""
    lanes, ticks, _ = drawn.shape
    errors, set_points = np.empty((lanes, ticks)), np.empty((lanes, ticks))
    state = plant.settled_state(drawn[:, 0])
    set_point = state[plant.NEWEST]
    controller.start(drawn[:, 0])
    for tick in range(ticks):
        set_points[:, tick] = set_point
        state, errors[:, tick] = plant.advance(state, set_point, drawn[:, tick])
        set_point = controller.decide(drawn[:, tick], errors[:, tick])
    return errors, set_points
