"""Episodes on records of the machine: a surrogate answers to the set point, everything else happens as it was recorded.

An episode begins at a random place of the records, with what was recorded before it. From then on VIMIN is the
agent's and IMINER the surrogate's; LINFRQ, IB, MDAT40 and B_VIMIN stay those of the records.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from whorl.envs.library.booster import plant
from whorl.envs.library.booster.controllers import PUBLISHED_ALPHA, Regulator
from whorl.envs.library.booster.copies import PER_TICK, Copies, Settings, show
from whorl.envs.library.booster.records import VARIABLES
from whorl.envs.library.booster.signals import B_VIMIN, BALANCE, IB, LINFRQ, MDAT40
from whorl.envs.library.booster.surrogate import Surrogate, load_surrogate
from whorl.errors import BadInputError
from whorl.types import Array

_VIMIN, _IMINER = range(2)
_OUTSIDE = slice(2, 6)
"""Columns of the records that nobody here has a say in."""
_CHANNELS = [LINFRQ, IB, MDAT40, B_VIMIN]
"""Where those are among the signals."""


def make_copies(settings: Settings, lanes: int) -> Copies:
    """Lanes on the plant, or on a surrogate where the settings name one."""
    if settings.surrogate is None:
        return Copies(settings, lanes)
    return ReplayedCopies(settings, lanes, load_surrogate(settings.surrogate))


class ReplayedCopies(Copies):
    """``Copies`` with a surrogate for the plant and records for the signals."""

    def __init__(self, settings: Settings, lanes: int, surrogate: Surrogate) -> None:
        super().__init__(settings, lanes)
        self._surrogate = surrogate
        self._before = max(surrogate.look_back, settings.history)
        """Ticks of the records that are needed before an episode's first."""
        needed = self._before + settings.episode_ticks
        self._places = surrogate.records.starts(needed)
        if not len(self._places):
            raise BadInputError(
                f"surrogate {settings.surrogate}: its records have no stretch of {needed} ticks; "
                f"ask for shorter episodes (episode_ticks)"
            )
        self._lane_places = np.zeros(lanes, np.int64)
        self._windows = np.zeros((lanes, len(VARIABLES), surrogate.look_back), np.float32)

    @property
    def state(self) -> list[Array]:
        """Also the ticks that the surrogate sees."""
        return [*super().state, self._windows]

    def restart(self, generators: Mapping[int, np.random.Generator]) -> None:
        """Begin an episode in these lanes, each at a place of the records that its own generator chooses."""
        for lane, generator in generators.items():
            self._begin(lane, int(self._places[generator.integers(len(self._places))]))

    def _begin(self, lane: int, place: int) -> None:
        surrogate, settings, first = self._surrogate, self.settings, place + self._before
        values = surrogate.records.values
        self._lane_places[lane] = place
        before = values[first - settings.history : first]
        signals = self.signals[settings.settling_ticks :, lane]
        signals[:, _CHANNELS] = values[first : first + settings.episode_ticks, _OUTSIDE]
        shown = np.zeros((len(before), self.signals.shape[2]))
        shown[:, _CHANNELS] = before[:, _OUTSIDE]
        rows = show(before[:, _IMINER], before[:, _VIMIN], shown)
        self.observation[lane, :-1] = rows[:, :PER_TICK].ravel()
        self.observation[lane, -1] = rows[-1, PER_TICK]
        recent = values[place:first]
        signals[:, BALANCE] = plant.GAIN * _integral(recent)
        # The set point's place in the window is one tick ahead: its last is written when it is chosen.
        seen = surrogate.scaled(recent[:, : len(VARIABLES)])
        self._windows[lane] = seen[-surrogate.look_back :].T
        self._windows[lane, _VIMIN, :-1] = seen[len(seen) + 1 - surrogate.look_back :, _VIMIN]
        self.ticks[lane] = self.within_tolerance[lane] = 0
        self.plant[:, lane], self.error[lane] = before[-1, _VIMIN], before[-1, _IMINER]

    def _advance(self, set_point: Array, row: Array) -> Array:
        surrogate, windows = self._surrogate, self._windows
        five = np.zeros((len(row), len(VARIABLES)))
        five[:, _VIMIN] = set_point
        windows[:, _VIMIN, -1] = surrogate.scaled(five)[:, _VIMIN]
        error: Array = surrogate.foretell(windows)[:, _IMINER]
        five[:, _IMINER], five[:, 2:] = error, row[:, _CHANNELS[:3]]
        windows[..., :-1] = windows[..., 1:].copy()
        windows[..., -1] = surrogate.scaled(five)  # VIMIN's is overwritten by the next set point
        self.plant[plant.NEWEST] = set_point
        return error

    def regulated(self, lane: int = 0) -> tuple[Array, Array]:
        """With the surrogate in the plant's place."""
        other = ReplayedCopies(self.settings, 1, self._surrogate)
        other._begin(0, int(self._lane_places[lane]))
        signals = other.signals[self.settings.settling_ticks :]
        errors, set_points = np.empty(len(signals)), np.empty(len(signals))
        regulator = Regulator()
        regulator.start(signals[0])
        error = other.error
        for tick, row in enumerate(signals):
            set_point = regulator.decide(row, error)
            error = other._advance(set_point, row)
            errors[tick], set_points[tick] = error[0], set_point[0]
        return errors, set_points


def _integral(recent: Array) -> float:
    """What the regulator's integral was worth, by its own equation, in the mean of these ticks of records."""
    vimin, iminer, operators = recent[:, _VIMIN], recent[:, _IMINER], recent[:, -1]
    return float((operators - vimin - PUBLISHED_ALPHA * iminer).mean())
