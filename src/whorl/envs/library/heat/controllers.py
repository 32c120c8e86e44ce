"""Baselines: each maps an observation to an action, and sees nothing that an agent does not see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from whorl.envs.library.heat.env import SENSORS, Heat
from whorl.envs.library.heat.plate import HEATERS
from whorl.types import Array

GAINS = (1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0)
REACHES = (0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.25)
TUNED_GAIN, TUNED_REACH = 12.0, 0.02
FEED_FORWARD_GAIN, FEED_FORWARD_REACH = 2.0, 0.15
"""The first pair is the best of ``GAINS`` x ``REACHES``; the other gain is the best at that reach."""

_COUNT = SENSORS**2
_HEATER_PLACES = np.array([(0, 0.25), (0, 0.75), (1, 0.25), (1, 0.75), (0.25, 0), (0.75, 0), (0.25, 1), (0.75, 1)])


class Controller(Protocol):
    """Chooses the settings of the heaters."""

    def decide(self, observation: Array, /) -> Array: ...


class Proportional:
    """Each heater answers the errors of the sensors near it: setting = gain x their weighted mean.

    Weights fall off as exp(-distance / reach), with the side of the plate as the unit.
    """

    def __init__(self, gain: float = TUNED_GAIN, reach: float = TUNED_REACH) -> None:
        along = (np.arange(SENSORS) + 0.5) / SENSORS
        sensors = np.stack(np.meshgrid(along, along, indexing="ij"), axis=-1).reshape(-1, 2)
        distance = np.linalg.norm(_HEATER_PLACES[:, None] - sensors, axis=-1)
        weights = np.exp(-distance / reach)
        self.matrix: Array = gain * weights / weights.sum(axis=1, keepdims=True)

    def decide(self, observation: Array) -> Array:
        """The settings."""
        seen, aims = observation[:_COUNT], observation[_COUNT : 2 * _COUNT]
        return np.asarray((self.matrix @ (aims - seen)).clip(-1, 1), np.float32)


class FeedForward:
    """Knows the equation: the settings whose steady field fits the target best at the sensors, with feedback."""

    def __init__(self, env: Heat, gain: float = FEED_FORWARD_GAIN, reach: float = FEED_FORWARD_REACH) -> None:
        at_sensors = env.responses[:, *env.places].reshape(HEATERS, -1)
        self._inverse = np.linalg.pinv(at_sensors.T)
        self._feedback = Proportional(gain, reach).matrix

    def decide(self, observation: Array) -> Array:
        """The settings."""
        seen, aims = observation[:_COUNT], observation[_COUNT : 2 * _COUNT]
        return np.asarray((self._inverse @ aims + self._feedback @ (aims - seen)).clip(-1, 1), np.float32)


@dataclass(frozen=True)
class Score:
    """What a controller reaches."""

    returns: float
    """Mean of episodes, and their standard deviation."""
    spread: float
    final_error: float
    """Root of the mean squared distance to the target at the end of an episode, on average."""


def score(controller: Controller | None, episodes: int, seed: int, env: Heat | None = None) -> Score:
    """Run episodes with the seeds from ``seed`` on. No controller: the heaters stay off."""
    env = env or Heat()
    returns, errors = [], []
    for episode in range(episodes):
        observation, info = env.reset(seed=seed + episode)
        total, over = 0.0, False
        while not over:
            action = np.zeros(HEATERS, np.float32) if controller is None else controller.decide(observation)
            observation, reward, terminated, truncated, info = env.step(action)
            total, over = total + reward, terminated or truncated
        returns.append(total)
        errors.append(info["final_error"])
    return Score(float(np.mean(returns)), float(np.std(returns)), float(np.mean(errors)))
