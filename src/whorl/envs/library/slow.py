"""``whorl/Slow-v0``: a slow simulator on a laptop."""

from __future__ import annotations

import ctypes
import math
import time
from pathlib import Path
from typing import Any

import numpy as np

from whorl.envs.library.around import Around, StepResult, one_of

DISTRIBUTIONS = ("constant", "normal", "lognormal", "exponential", "mixture")
SLOW_SHARE = 0.1
"""Share of long steps in a mixture."""
_PR_SET_TIMERSLACK = 29


class Slow(Around):
    """Any environment with slow steps: a step ends at its own entry plus a drawn duration.

    A step that is late is not caught up by the next one. Durations are drawn from the environment's own seeded
    generator, so they are the same every time. Resets take no time.

    env:           id of the environment to slow down (other arguments are passed on to it)
    step_time_s:   mean duration of a step
    distribution:  constant, normal (cut off at 0), lognormal, exponential, or mixture: every tenth step is long
    cv:            standard deviation over mean (not for constant; 1 for exponential); a mixture's long steps take
                   (1 + 3 cv) means and its short ones (1 - cv / 3): cv = 1.42 makes long ones 10 times as long
    histogram:     instead of a distribution, a text file with a duration in seconds and a weight per line
    work:          sleep (leaves the processor free), or spin (keeps it busy)
    """

    def __init__(
        self,
        env: str = "CartPole-v1",
        step_time_s: float = 0.01,
        distribution: str = "constant",
        cv: float = 0.5,
        histogram: str | None = None,
        work: str = "sleep",
        **kwargs: Any,
    ) -> None:
        if not (math.isfinite(step_time_s) and step_time_s >= 0):
            raise ValueError(f"step_time_s must be a finite number of at least 0, not {step_time_s}")
        if not (math.isfinite(cv) and cv >= 0) or (distribution == "mixture" and cv > 3):
            raise ValueError(f"cv must be at least 0 (and at most 3 for a mixture), not {cv}")
        self._distribution = one_of("distribution", distribution, DISTRIBUTIONS)
        self._spins = one_of("work", work, ("sleep", "spin")) == "spin"
        self._mean_s, self._cv = float(step_time_s), float(cv)
        ask_for_exact_timers()
        self._histogram = read_histogram(histogram) if histogram is not None else None
        super().__init__(env, **kwargs)

    def step(self, action: Any) -> StepResult:
        """Step what is wrapped, then wait until the drawn duration is over."""
        end_s = time.perf_counter() + self.draw_duration()
        result = super().step(action)
        self.wait_until(end_s)
        return result

    def wait_until(self, end_s: float) -> None:
        """Return at ``end_s`` of the performance counter."""
        (spin_until if self._spins else sleep_until)(end_s)

    def draw_duration(self) -> float:
        """The next step's duration in seconds."""
        mean, cv, draws = self._mean_s, self._cv, self.draws
        if self._histogram is not None:
            durations_s, shares = self._histogram
            return float(draws.choice(durations_s, p=shares))
        if self._distribution == "normal":
            return max(0.0, mean * (1 + cv * draws.standard_normal()))
        if self._distribution == "lognormal":
            variance = math.log1p(cv * cv)
            return mean * math.exp(math.sqrt(variance) * draws.standard_normal() - variance / 2)
        if self._distribution == "exponential":
            return mean * draws.standard_exponential()
        if self._distribution == "mixture":
            odds = math.sqrt((1 - SLOW_SHARE) / SLOW_SHARE)
            return mean * (1 + cv * odds if draws.random() < SLOW_SHARE else 1 - cv / odds)
        return mean


def sleep_until(end_s: float) -> None:
    """Return at ``end_s`` of the performance counter, asleep until then."""
    left_s = end_s - time.perf_counter()
    if left_s > 0:
        time.sleep(left_s)


def ask_for_exact_timers() -> None:
    """The system wakes sleepers 50 us late unless they ask for better: for this thread, and what it starts later."""
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1)


def spin_until(end_s: float) -> None:
    """Return at ``end_s`` of the performance counter, awake all the time."""
    while time.perf_counter() < end_s:
        pass


def read_histogram(path: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Durations in seconds and their shares, from lines of ``duration weight`` (``#`` starts a comment)."""
    rows = []
    for number, line in enumerate(Path(path).read_text().splitlines(), 1):
        words = line.partition("#")[0].replace(",", " ").split()
        if not words:
            continue
        try:
            duration_s, weight = (float(word) for word in words)
        except ValueError:
            raise ValueError(f"{path}:{number}: expected a duration in seconds and a weight, got {line!r}") from None
        if not (math.isfinite(duration_s) and math.isfinite(weight) and duration_s >= 0 and weight >= 0):
            raise ValueError(f"{path}:{number}: durations and weights must be finite and not negative, got {line!r}")
        rows.append((duration_s, weight))
    if not rows or sum(weight for _, weight in rows) <= 0:
        raise ValueError(f"{path} holds no durations with a weight")
    table = np.array(rows)
    return table[:, 0], table[:, 1] / table[:, 1].sum()
