"""``whorl/Slow-v0`` that tells from outside how long its steps were meant to take.

How many steps N environments make in half a minute depends on the durations they happen to draw: with every tenth step
ten times as long, 16 of them differ by several percent from one half minute to the next. The share of their time that
they were meant to be in steps does not.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from whorl.envs.library.around import StepResult
from whorl.envs.library.slow import Slow

ID = "whorl.bench.told:WhorlTold-v0"
gymnasium.register("WhorlTold-v0", entry_point="whorl.bench.told:Told")


class Told(Slow):
    """Slow, and keeps the sum of the durations drawn for steps that are over, in a file of its own below ``folder``."""

    def __init__(self, folder: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._sum_s = np.memmap(Path(folder) / f"{os.getpid()}-{id(self)}", np.float64, "w+", shape=(1,))
        self._drawn_s = 0.0

    def draw_duration(self) -> float:
        self._drawn_s = super().draw_duration()
        return self._drawn_s

    def step(self, action: Any) -> StepResult:
        result = super().step(action)
        self._sum_s[0] += self._drawn_s
        return result


def total_s(folder: Path) -> float:
    """Of all environments, so far."""
    return sum(float(np.fromfile(path, np.float64)[0]) for path in folder.iterdir())
