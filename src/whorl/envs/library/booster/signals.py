"""What acts on the magnets from outside, and what is measured of it: drawn for a whole episode at its reset.

None of it depends on the regulation, so one array [lanes, ticks, CHANNELS] holds it. A tick is a cycle of the Booster
(1/15 s). Currents are in A, the line's frequency offset in mHz. Slow drifts are sums of sines, with phases drawn for
each episode.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from whorl.types import Array

TICKS_PER_S = 15
SUPERCYCLE_TICKS = 901

DISTURBANCE, BALANCE, NOISE, LINFRQ, IB, MDAT40, B_VIMIN = range(7)
"""Channels: what is added to the error of the minimum current; the part of it that a slow integral has long balanced;
noise of the error's measurement; and the measured values of the line frequency, the injector's current and ramp, and
the operators' set point."""
CHANNELS = 7

LINFRQ_RANGE = (-45.0, 41.0)
INJECTOR_RANGE = (0.0, 7500.0)
B_VIMIN_RANGE = (103.2815, 103.4492)

LINE_MEAN_MHZ = -2.0
LINE_WAVES = ((12.0, 1_296_000), (9.0, 190_000), (7.0, 54_000), (6.0, 17_000), (4.0, 6_300))
"""Amplitude in mHz and period in ticks: a day, hours, minutes."""
LINE_NOISE_MHZ = 0.3
LINE_EFFECT = 0.008
"""A of error per mHz."""

THERMAL_WAVES = ((0.085, 1_400), (0.125, 4_100))
"""Warming and cooling of the resonant circuit, which nobody measures: amplitude in A, period in ticks."""
GAIN_WAVE = (0.006, 216_000)
"""Slow drift of the injector's current, as a share of it."""
STANDING_ERROR = -0.62
"""A of error that is always there: the regulator's set point lies above the operators' one."""
RIPPLE = 0.07
"""Standard deviation of the line's ripple, new every tick, in A of error."""
MEASUREMENT_NOISE = 0.05

INJECTION_A, TOP_A = 480.0, 7056.0
RISE = (0.03, 0.12, 0.26, 0.42, 0.58, 0.74, 0.88, 0.97)
FALL_A = (7017.0, 6345.0, 5192.0, 4065.0, 2930.0, 1800.0, 900.0)
SPILL_TOP_TICKS = 62
RAMPS = 41
"""A supercycle is one slow spill (81 ticks, most of them at the top) and 41 ramps of 20 ticks."""
INJECTOR_DELAY_TICKS = 2
INJECTOR_RESPONSE = 0.8
INJECTOR_NOISE_A = 8.0
RAMP_UNIT_A = 1600.0
RAMP_LOAD = 0.587
TOP_LOAD = 0.37
"""A of error by which the injector's power, stored (current times its change) and lost (current squared), pulls the
magnets down."""

OPERATOR_STEP_A = 0.004 * (B_VIMIN_RANGE[1] - B_VIMIN_RANGE[0])
OPERATOR_MOVES_PER_TICK = 846 / (86_400 * TICKS_PER_S)
OPERATOR_SPREAD_A = 0.012


def ramp_program() -> Array:
    """The injector's ramp [SUPERCYCLE_TICKS], A."""
    rise = [INJECTION_A + (TOP_A - INJECTION_A) * share for share in RISE]
    spill = [INJECTION_A] * 4 + rise + [TOP_A] * SPILL_TOP_TICKS + list(FALL_A)
    ramp = [INJECTION_A] * 4 + rise + [TOP_A] + list(FALL_A)
    return np.array(spill + ramp * RAMPS)


def injector_current(program: Array) -> Array:
    """The current that follows the program late and smoothed, A; periodic as the program is."""
    current, value = np.zeros_like(program), program[0]
    for _ in range(2):  # the first round only forgets where it began
        for tick in range(len(program)):
            value += INJECTOR_RESPONSE * (program[tick - INJECTOR_DELAY_TICKS] - value)
            current[tick] = value
    return current


def injector_load(current: Array) -> Array:
    """How far the injector's power pulls the error down at each tick of the supercycle, A."""
    share, change = current / INJECTOR_RANGE[1], (current - np.roll(current, 1)) / RAMP_UNIT_A
    return np.asarray(RAMP_LOAD * share * change + TOP_LOAD * share * share)


PROGRAM = ramp_program()
CURRENT = injector_current(PROGRAM)
LOAD = injector_load(CURRENT)
MEAN_LOAD = math.fsum(LOAD) / SUPERCYCLE_TICKS


_WAVES = np.array([*LINE_WAVES, *THERMAL_WAVES, GAIN_WAVE])
_LINE, _THERMAL, _GAIN = range(5), range(5, 7), range(7, 8)


def draw_signals(generators: Sequence[np.random.Generator], ticks: int) -> Array:
    """Signals [lanes, ticks, CHANNELS], each lane from its own generator and the same in whatever company: from a
    random moment of the day and of the supercycle."""
    lanes = len(generators)
    phases, levels = np.empty((lanes, 1), np.int64), np.empty((lanes, 1))
    angles, noises, moves = np.empty((lanes, len(_WAVES))), np.empty((lanes, 5, ticks)), np.empty((lanes, ticks))
    for lane, generator in enumerate(generators):
        phases[lane] = generator.integers(SUPERCYCLE_TICKS)
        levels[lane] = generator.normal(0, OPERATOR_SPREAD_A)
        angles[lane] = generator.uniform(0, 2 * math.pi, len(_WAVES))
        generator.standard_normal(out=noises[lane])
        generator.random(out=moves[lane])
    ripple, error_noise, line_noise, current_noise, ramp_noise = noises.transpose(1, 0, 2)
    line = LINE_MEAN_MHZ + _waves(_LINE, angles, ticks)
    balanced = STANDING_ERROR + LINE_EFFECT * line
    slow = balanced + _waves(_THERMAL, angles, ticks)
    gain = 1 + _waves(_GAIN, angles, ticks)
    place = (phases + np.arange(ticks)) % SUPERCYCLE_TICKS

    signals = np.empty((lanes, ticks, CHANNELS))
    signals[..., DISTURBANCE] = slow - gain * gain * LOAD[place] + RIPPLE * ripple
    signals[..., BALANCE] = balanced - MEAN_LOAD
    signals[..., NOISE] = MEASUREMENT_NOISE * error_noise
    signals[..., LINFRQ] = (line + LINE_NOISE_MHZ * line_noise).clip(*LINFRQ_RANGE)
    signals[..., IB] = (gain * CURRENT[place] + INJECTOR_NOISE_A * current_noise).clip(*INJECTOR_RANGE)
    signals[..., MDAT40] = (gain * PROGRAM[place] + INJECTOR_NOISE_A * ramp_noise).clip(*INJECTOR_RANGE)
    signals[..., B_VIMIN] = _operators(levels, moves)
    return signals


def _waves(numbers: range, angles: Array, ticks: int) -> Array:
    """Sum of some waves [lanes, ticks], each A sin(w t + angle) = A sin(angle) cos(w t) + A cos(angle) sin(w t)."""
    total = np.zeros((len(angles), ticks))
    cosines, sines = _turns(ticks)
    for number in numbers:
        amplitude, angle = _WAVES[number, 0], angles[:, number, None]
        total += amplitude * np.sin(angle) * cosines[number]
        total += amplitude * np.cos(angle) * sines[number]
    return total


@functools.lru_cache(maxsize=2)
def _turns(ticks: int) -> tuple[Array, Array]:
    """Cosine and sine of every wave [waves, ticks]."""
    turns = 2 * math.pi / _WAVES[:, 1:] * np.arange(ticks)
    return np.cos(turns), np.sin(turns)


def _operators(levels: Array, moves: Array) -> Array:
    """The operators' set point: now and then a step up or down, turned back at the ends of its range."""
    low, high = B_VIMIN_RANGE
    half, width = OPERATOR_MOVES_PER_TICK / 2, high - low
    steps = np.cumsum((moves > 1 - half).astype(np.int64) - (moves < half), axis=1)
    walked = width / 2 + levels + OPERATOR_STEP_A * steps
    return np.asarray(high - np.abs(walked % (2 * width) - width))
