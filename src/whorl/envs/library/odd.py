"""Environments with episodes of odd lengths: none that ends, and none that begins."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from whorl.envs.library.around import Info, StepResult


class Endless(gymnasium.Env[Any, Any]):
    """Episodes that never end: a walk on a line, reward 1 for going right. ``env.max_episode_steps`` must cut them."""

    def __init__(self) -> None:
        self.observation_space, self.action_space = spaces.Box(-np.inf, np.inf, (1,), np.float32), spaces.Discrete(2)
        self._place = 0

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Back to 0."""
        super().reset(seed=seed, options=options)
        self._place = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> StepResult:
        """Go on for ever."""
        self._place += 1 if action == 1 else -1
        return np.array([self._place], np.float32), float(action == 1), False, False, {}


class Empty(gymnasium.Env[Any, Any]):
    """Episodes of one env step, or of none: the first step says that the episode was over already.

    length:  1 (the step counts: reward 1 for action 1), or 0 (the step changes nothing and pays nothing)
    """

    def __init__(self, length: int = 1) -> None:
        if length not in (0, 1):
            raise ValueError(f"length must be 0 or 1, not {length}")
        self.observation_space, self.action_space = spaces.Box(0, 1, (2,), np.float32), spaces.Discrete(2)
        self._length, self._shown = length, np.zeros(2, np.float32)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """An episode that is as good as over."""
        super().reset(seed=seed, options=options)
        self._shown = self.np_random.uniform(0, 1, 2).astype(np.float32)
        return self._shown.copy(), {}

    def step(self, action: Any) -> StepResult:
        """The end."""
        if self._length:
            self._shown = self.np_random.uniform(0, 1, 2).astype(np.float32)
        return self._shown.copy(), float(self._length and action == 1), True, False, {}
