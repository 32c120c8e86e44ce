"""An environment that is slow in some lanes: its first reset seed decides, which differs from lane to lane."""

from __future__ import annotations

import time
from typing import Any

import gymnasium
import numpy as np

SLOW_S, FAST_S = 0.2, 0.004


class Uneven(gymnasium.Env[Any, Any]):
    """Counts up to 5. One lane in a few is slow."""

    observation_space = gymnasium.spaces.Box(0.0, 5.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, slow_seeds: tuple[int, ...] = ()) -> None:
        self._slow_seeds = slow_seeds
        self._step_s: float | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if self._step_s is None:
            self._step_s = SLOW_S if seed in self._slow_seeds else FAST_S
        self._count = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        time.sleep(self._step_s or 0.0)
        self._count += 1
        return np.full(1, self._count, np.float32), 1.0, self._count == 5, False, {}


gymnasium.register("Uneven-v0", f"{__name__}:Uneven")
