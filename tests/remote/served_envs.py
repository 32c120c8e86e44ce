"""Environments to serve, and what lanes of them show."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from whorl.envs.contract import LaneState


class Everything(gymnasium.Env):
    """Every kind of leaf, in an order that sorting names alone would change, with bounds that float32 rounds."""

    def __init__(self, action: str = "discrete") -> None:
        self.observation_space = spaces.Dict(
            {
                "a": spaces.Tuple([spaces.Discrete(3, start=5) for _ in range(11)]),
                "a-b": spaces.MultiBinary((2, 2)),
                "counts": spaces.MultiDiscrete([3, 4], start=[1, 2]),
                "double": spaces.Box(0.1, 0.7, (), np.float64),
                "whole": spaces.Box(-(2**31) + 1, 2**31 - 1, (2,), np.int32),
                "last": spaces.Box(0, 255, (10, 2, 3), np.uint8),
                "first": spaces.Box(0, 255, (3, 9, 8), np.uint8),
                "flat": spaces.Box(0, 255, (4, 5), np.uint8),
            }
        )
        self.action_space = {
            "discrete": spaces.Discrete(4, start=-1),
            "multi": spaces.MultiDiscrete([[2, 3], [4, 5]]),
            "binary": spaces.MultiBinary(3),
            "box": spaces.Box(np.array([0.1, -np.inf]), np.array([0.3, 2.0]), (2,), np.float64),
        }[action]
        self._sum = 0.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._sum = 0.0
        return self._show(), {}

    def step(self, action):
        assert self.action_space.contains(action) or self.action_space.dtype == np.float64
        self._sum += float(np.sum(action))
        return self._show(), self._sum, bool(self.np_random.random() < 0.05), bool(self.np_random.random() < 0.05), {}

    def _show(self):
        self.observation_space.seed(int(self.np_random.integers(2**31)))
        return self.observation_space.sample()


class Unseeded(gymnasium.Env):
    """Goes somewhere else each time."""

    def __init__(self) -> None:
        self.observation_space, self.action_space = spaces.Box(0, 1, (1,)), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.random.default_rng().random(1, np.float32), {}

    def step(self, action):
        return np.random.default_rng().random(1, np.float32), 0.0, False, False, {}


class Torn(gymnasium.Env):
    """Counts its steps; what it tells of an episode that action 1 has ended cannot be read."""

    episode_metrics = ("score",)

    def __init__(self) -> None:
        self.observation_space, self.action_space = spaces.Box(0, 100, (1,)), spaces.Discrete(2)
        self._steps = 0

    def reset(self, *, seed=None, options=None):
        self._steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self._steps += 1
        return np.full(1, self._steps, np.float32), 1.0, bool(action), False, TornInfo()


class TornInfo(dict):
    def get(self, *_: Any) -> Any:
        raise LookupError("a page is missing")


def rows_of(lanes: Any, actions: np.ndarray, states: list[LaneState] | None = None) -> list[bytes]:
    """Everything that lanes show over some rows. ``actions`` [rows, lanes, *shape]."""
    try:
        rows = started(lanes, states)
        return [step(lanes, rows, action) for action in actions]
    finally:
        lanes.close()


def started(lanes: Any, states: list[LaneState] | None = None) -> Any:
    """The rows of lanes that have nothing to wait for."""
    generator = lanes.start(states or [LaneState(lane) for lane in lanes.lanes])
    try:
        while True:
            next(generator)
    except StopIteration as done:
        return done.value


def step(lanes: Any, rows: Any, action: np.ndarray) -> bytes:
    """Step all lanes; what they then show."""
    lanes.send(action)
    outcome = lanes.receive()
    arrays = [*rows.observation.values(), rows.valid, rows.first]
    arrays += [outcome.reward, outcome.terminated, outcome.truncated, outcome.fault]
    return b"".join(array.tobytes() for array in arrays)
