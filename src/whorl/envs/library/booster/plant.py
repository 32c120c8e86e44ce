"""What the set point does to the magnets: pure functions over lanes, float64, the same for one lane and for thousands.

    vimin_t   the set point, chosen after the error of tick t-1 was measured
    supply    follows the set point DEAD_TICKS late:   s_t = s_(t-1) + SUPPLY_RESPONSE (vimin_(t-2) - s_(t-1))
    magnets   follow the supply:                       m_t = m_(t-1) + MAGNET_RESPONSE (s_t - m_(t-1))
    error     IMINER_t = GAIN (m_t - B_VIMIN_t) + disturbance_t + noise_t

The constants here and in ``signals.py`` were fixed, and hashed, before any agent was trained on them.
"""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any

import numpy as np

from whorl.envs.library.booster import signals
from whorl.envs.library.booster.signals import B_VIMIN, BALANCE, DISTURBANCE, NOISE
from whorl.types import Array

GAIN = 12.0
SUPPLY_RESPONSE = 0.8
MAGNET_RESPONSE = 0.6
DEAD_TICKS = 2

VIMIN_RANGE = (103.247, 103.986)
IMINER_RANGE = (-1.21, 1.18)

NEWEST, OLDEST, SUPPLY, MAGNETS = range(4)
"""Rows of a state [4, lanes], all in A: the set points under way, the supply, the magnets."""


def settled_state(row: Array) -> Array:
    """The state [4, lanes] that balances the slow part of the disturbance in ``row`` [lanes, CHANNELS]."""
    return np.tile(row[:, B_VIMIN] - row[:, BALANCE] / GAIN, (4, 1))


def advance(state: Array, set_point: Array, row: Array) -> tuple[Array, Array]:
    """One tick with this set point [lanes] and these signals [lanes, CHANNELS]: the next state, and IMINER [lanes]."""
    after = np.empty_like(state)
    after[NEWEST] = set_point
    after[OLDEST] = state[NEWEST]
    after[SUPPLY] = state[SUPPLY] + SUPPLY_RESPONSE * (state[OLDEST] - state[SUPPLY])
    after[MAGNETS] = state[MAGNETS] + MAGNET_RESPONSE * (after[SUPPLY] - state[MAGNETS])
    error = GAIN * (after[MAGNETS] - row[:, B_VIMIN]) + row[:, DISTURBANCE] + row[:, NOISE]
    return after, error


def is_within_bounds(set_point: Array, error: Array) -> Array:
    """Whether set point and error are where the machine may run."""
    low, high = VIMIN_RANGE
    lowest, highest = IMINER_RANGE
    return (set_point >= low) & (set_point <= high) & (error >= lowest) & (error <= highest)


def constants() -> dict[str, Any]:
    """Every number that makes the plant what it is."""
    names = {
        f"{module.__name__.rpartition('.')[2]}.{name}": value
        for module in (signals, sys.modules[__name__])
        for name, value in vars(module).items()
        if name.isupper() and not name.startswith("_") and isinstance(value, int | float | tuple)
    }
    return dict(sorted(names.items()))


def fingerprint_of_constants() -> str:
    """SHA-256 of all constants."""
    return hashlib.sha256(json.dumps(constants()).encode()).hexdigest()


def fingerprint_of_trace(ticks: int = 2 * signals.SUPERCYCLE_TICKS) -> str:
    """SHA-256 of two lanes' signals and errors under a set point that moves, to a millionth (so that it is the same
    on processors whose sine differs in the last bit)."""
    drawn = signals.draw_signals([np.random.Generator(np.random.PCG64(seed)) for seed in (1, 2)], ticks)
    state = settled_state(drawn[:, 0])
    errors = np.empty((ticks, 2))
    start = state[NEWEST].copy()
    for tick in range(ticks):
        state, errors[tick] = advance(state, start + 0.01 * ((tick // 7) % 3 - 1), drawn[:, tick])
    rounded = [np.rint(array * 1e6).astype(np.int64).tobytes() for array in (drawn, errors)]
    return hashlib.sha256(b"".join(rounded)).hexdigest()
