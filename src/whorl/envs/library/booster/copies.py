"""Episodes of the Booster in lanes: the one implementation of both the single environment and its vector form.

A tick of an episode: the action changes the set point, the plant advances, and -|IMINER| is the reward. Leaving the
bounds ends the episode and costs the worst reward of a tick within the bounds for every tick that remains, at once: so
whoever stays, however badly, is never worse off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from whorl.envs.library.booster import plant
from whorl.envs.library.booster.controllers import Regulator, regulate
from whorl.envs.library.booster.signals import (
    B_VIMIN,
    B_VIMIN_RANGE,
    CHANNELS,
    IB,
    INJECTOR_RANGE,
    LINFRQ,
    LINFRQ_RANGE,
    MDAT40,
    draw_signals,
)
from whorl.types import Array

WORST_REWARD = -max(abs(bound) for bound in plant.IMINER_RANGE)
SETTLING_TICKS = 10
"""The published regulator runs for so many ticks, and for those of the first observation, before an episode."""

_OFFSET_RANGE = (plant.VIMIN_RANGE[0] - B_VIMIN_RANGE[1], plant.VIMIN_RANGE[1] - B_VIMIN_RANGE[0])
_SHOWN = (
    (plant.IMINER_RANGE, 0.0, 0.25),
    (_OFFSET_RANGE, 0.065, 0.03),
    (LINFRQ_RANGE, -2.0, 20.0),
    (INJECTOR_RANGE, 3750.0, 3750.0),
    (INJECTOR_RANGE, 3750.0, 3750.0),
    (B_VIMIN_RANGE, 103.36535, 0.08385),
)
"""Range, centre and scale of what is observed: IMINER, VIMIN - B_VIMIN, LINFRQ, IB, MDAT40, each for some ticks; and
B_VIMIN."""
_LOWS, _HIGHS = (np.array([shown[0][side] for shown in _SHOWN]) for side in (0, 1))
_CENTRES, _SCALES = (np.array([shown[column] for shown in _SHOWN]) for column in (1, 2))
_READ = [B_VIMIN, B_VIMIN, LINFRQ, IB, MDAT40, B_VIMIN]
"""The signals' channels in that order; the first two are places for IMINER and for VIMIN - B_VIMIN."""
PER_TICK = len(_SHOWN) - 1
_DRAWN_AT_ONCE = 16
"""Lanes whose signals are drawn together: so few that they stay in the processor's cache."""


@dataclass(frozen=True)
class Settings:
    """What both environments let their user choose."""

    episode_ticks: int = 200
    history: int = 10
    tolerance: float = 0.1
    surrogate: str | None = None
    """A file that ``whorl booster fit`` has written, which then takes the plant's place."""

    def __post_init__(self) -> None:
        for name, lowest, highest in (("episode_ticks", 1, 100_000), ("history", 1, 1000)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= highest:
                raise ValueError(f"{name} must be a whole number from {lowest} to {highest}, not {value!r}")
        if not self.tolerance > 0:
            raise ValueError(f"tolerance must be above 0 A, not {self.tolerance!r}")
        if not isinstance(self.surrogate, str | None):
            raise ValueError(f"surrogate must be the name of a file, not {self.surrogate!r}")

    @property
    def settling_ticks(self) -> int:
        return SETTLING_TICKS + self.history

    def bounds(self) -> tuple[Array, Array]:
        """Lowest and highest observation."""
        low, high = ((side - _CENTRES) / _SCALES for side in (_LOWS, _HIGHS))
        return tuple(  # type: ignore[return-value]
            np.append(np.tile(side[:PER_TICK], self.history), side[PER_TICK]).astype(np.float32) for side in (low, high)
        )


class Copies:
    """Lanes of episodes. ``observation`` [lanes, 5 history + 1] and the arrays below are overwritten by every call."""

    def __init__(self, settings: Settings, lanes: int) -> None:
        self.settings = settings
        # Ticks come first: lanes that go in step read what lies together.
        self.signals = np.zeros((settings.settling_ticks + settings.episode_ticks, lanes, CHANNELS))
        self.ticks = np.zeros(lanes, np.int64)
        """Ticks of the current episode so far."""
        self.within_tolerance = np.zeros(lanes, np.int64)
        """Those of them with an error within the tolerance."""
        self.plant = np.zeros((4, lanes))
        self.error = np.zeros(lanes)
        self.observation = np.zeros((lanes, PER_TICK * settings.history + 1), np.float32)
        self._next_observation = np.zeros_like(self.observation)
        self._rows = self.signals.reshape(-1, CHANNELS)
        self._firsts = np.arange(lanes) + settings.settling_ticks * lanes

    @property
    def set_point(self) -> Array:
        """VIMIN of every lane, A."""
        return np.asarray(self.plant[plant.NEWEST])

    @property
    def state(self) -> list[Array]:
        """Arrays that, beside the counters and what is drawn at a restart, make up where the lanes stand."""
        return [self.plant, self.observation]

    def restart(self, generators: Mapping[int, np.random.Generator]) -> None:
        """Begin an episode in these lanes, each from its own generator, with the published regulator in charge."""
        lanes = np.fromiter(generators, np.int64)
        for first in range(0, len(lanes), _DRAWN_AT_ONCE):
            some = lanes[first : first + _DRAWN_AT_ONCE]
            drawn = draw_signals([generators[lane] for lane in some.tolist()], len(self.signals))
            self.signals[:, some] = drawn.transpose(1, 0, 2)
        drawn = self.signals[: self.settings.settling_ticks, lanes]
        state = plant.settled_state(drawn[0])
        set_point = state[plant.NEWEST]
        observation = np.zeros((len(lanes), self.observation.shape[1]), np.float32)
        regulator = Regulator()
        regulator.start(drawn[0])
        for place, row in enumerate(drawn, -SETTLING_TICKS):
            state, error = plant.advance(state, set_point, row)
            if place >= 0:
                column = PER_TICK * place
                observation[:, column : column + PER_TICK + 1] = show(error, set_point, row)
            set_point = regulator.decide(row, error)
        self.ticks[lanes] = self.within_tolerance[lanes] = 0
        self.plant[:, lanes], self.error[lanes], self.observation[lanes] = state, error, observation

    @property
    def converged(self) -> Array:
        """The share of each lane's ticks so far with an error within the tolerance."""
        share: Array = self.within_tolerance / np.maximum(1, self.ticks)
        return share

    def step(self, changes: Array) -> tuple[Array, Array, Array]:
        """Change every lane's set point by so many A [lanes], and see: rewards, terminated, truncated."""
        settings = self.settings
        remaining = settings.episode_ticks - self.ticks
        # A lane whose episode is over is stepped until its reset comes; what it shows then means nothing.
        place = self._firsts + np.minimum(self.ticks, settings.episode_ticks - 1) * len(self._firsts)
        row = self._rows.take(place, axis=0)
        set_point = self.set_point + changes
        self.error = self._advance(set_point, row)
        self.ticks = np.minimum(self.ticks + 1, settings.episode_ticks)
        size = np.abs(self.error)
        self.within_tolerance += size <= settings.tolerance
        terminated = ~plant.is_within_bounds(set_point, self.error)
        rewards = np.where(terminated, WORST_REWARD * remaining, -size)
        before, after = self.observation, self._next_observation
        after[:, : -PER_TICK - 1] = before[:, PER_TICK:-1]
        after[:, -PER_TICK - 1 :] = show(self.error, set_point, row)
        self.observation, self._next_observation = after, before
        return rewards, terminated, (self.ticks >= settings.episode_ticks) & ~terminated

    def regulated(self, lane: int = 0) -> tuple[Array, Array]:
        """IMINER and VIMIN [ticks] that the published regulator would have in a lane's episode."""
        errors, set_points = regulate(Regulator(), self.signals[:, [lane]].transpose(1, 0, 2))
        return errors[0, self.settings.settling_ticks :], set_points[0, self.settings.settling_ticks :]

    def _advance(self, set_point: Array, row: Array) -> Array:
        """A tick with these set points and signals: IMINER of every lane."""
        self.plant, error = plant.advance(self.plant, set_point, row)
        return error


def show(error: Array, set_point: Array, row: Array) -> Array:
    """What is observed of one tick [lanes, 6]: five variables, centred and scaled, and B_VIMIN."""
    shown = row[:, _READ]
    shown[:, 0] = error
    shown[:, 1] = set_point - row[:, B_VIMIN]
    np.minimum(np.maximum(shown, _LOWS, out=shown), _HIGHS, out=shown)
    shown -= _CENTRES
    shown /= _SCALES
    return shown
