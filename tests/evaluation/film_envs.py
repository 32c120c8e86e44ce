"""Environments that render well, oddly or not at all, and ones that go wrong half-way."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Striped(gymnasium.Env[Any, Any]):
    """Renders stripes of an odd size; every env step moves them."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}

    def __init__(self, render_mode: str | None = None, length: int = 12, size: tuple[int, int] = (65, 97)) -> None:
        self.render_mode = render_mode
        self.observation_space, self.action_space = spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(2)
        self.length, self.size, self.steps = length, size, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return np.zeros(2, np.float32), 1.0, self.steps == self.length, False, {}

    def render(self) -> Any:
        rows = (np.arange(self.size[0]) // 8 + self.steps) % 2 * np.uint8(200)
        return np.broadcast_to(rows[:, None, None], (*self.size, 3)).astype(np.uint8)


class Growing(Striped):
    def render(self) -> Any:
        self.size = (self.size[0] + 2, self.size[1])
        return super().render()


class Grey(Striped):
    def render(self) -> Any:
        return super().render()[:, :, 0]


class Blind(Striped):
    def render(self) -> Any:
        raise RuntimeError("no lamp")


class NeverRenders(Striped):
    def __init__(self) -> None:
        super().__init__()


class Unclosable(NeverRenders):
    def close(self) -> None:
        raise RuntimeError("the door is stuck")


class Raises(Striped):
    """Goes wrong in the sixtieth env step, which looking at it beforehand does not reach."""

    def __init__(self, how: str = "raise") -> None:
        super().__init__(length=1000)
        self.how = how

    def step(self, action: Any) -> Any:
        observation, reward, *rest = super().step(action)
        if self.steps < 60:
            return observation, reward, *rest
        if self.how == "raise":
            raise RuntimeError("out of fuel")
        if self.how == "observation":
            return np.full(2, np.nan, np.float32), reward, *rest
        return observation, float("nan"), *rest


class Lives(gymnasium.Env[Any, Any]):
    """Three lives of four steps, each an episode; the score of 10 a step is told at the end of the game."""

    episode_metrics = ("episode_return",)
    observation_space = spaces.Box(0.0, 100.0, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self.lives = self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        if not self.lives:
            self.lives, self.steps = 3, 0
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> Any:
        self.steps += 1
        lost = self.steps % 4 == 0
        self.lives -= lost
        info = {} if self.lives else {"episode_return": 10 * self.steps}
        return np.zeros(1, np.float32), 1.0, lost, False, info
