"""Environments whose best and worst returns are known exactly: to test agents with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from whorl.envs.library.around import Info, StepResult
from whorl.types import Array


class Identity(gymnasium.Env[Any, Any]):
    """Repeat the number shown: reward 1 for an action equal to the observation, else 0.

    n:       how many numbers
    length:  env steps per episode, which is also the best return
    """

    def __init__(self, n: int = 4, length: int = 10) -> None:
        self.observation_space, self.action_space = spaces.Discrete(n), spaces.Discrete(n)
        self._n, self._length, self._left, self._shown = n, length, length, 0

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Show a first number."""
        super().reset(seed=seed, options=options)
        self._left = self._length
        return self._show(), {}

    def step(self, action: Any) -> StepResult:
        """Reward the repetition and show another number."""
        reward = float(action == self._shown)
        self._left -= 1
        return self._show(), reward, self._left == 0, False, {}

    def _show(self) -> Any:
        self._shown = int(self.np_random.integers(self._n))
        return self._shown


class IdentityMulti(gymnasium.Env[Any, Any]):
    """Repeat several numbers shown (MultiDiscrete): reward is the share that is right, so the best return is length.

    nvec:    how many values each number has
    length:  env steps per episode
    """

    def __init__(self, nvec: Sequence[int] = (2, 3, 4), length: int = 10) -> None:
        self._nvec, self._length, self._left = np.array(nvec), length, length
        self.observation_space, self.action_space = (spaces.MultiDiscrete(self._nvec) for _ in range(2))
        self._shown = np.zeros(len(nvec), np.int64)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Show the first numbers."""
        super().reset(seed=seed, options=options)
        self._left = self._length
        return self._show(), {}

    def step(self, action: Any) -> StepResult:
        """Reward the repetition and show other numbers."""
        reward = float(np.mean(np.asarray(action) == self._shown))
        self._left -= 1
        return self._show(), reward, self._left == 0, False, {}

    def _show(self) -> Array:
        self._shown = self.np_random.integers(self._nvec)
        return self._shown.copy()


class IdentityBox(gymnasium.Env[Any, Any]):
    """Repeat the vector shown: reward is minus the mean squared difference, so the best return is 0.

    size:    numbers in the vector, each in -1..1
    length:  env steps per episode
    """

    def __init__(self, size: int = 2, length: int = 10) -> None:
        self.observation_space = spaces.Box(-1, 1, (size,), np.float32)
        self.action_space = spaces.Box(-1, 1, (size,), np.float32)
        self._length, self._left, self._shown = length, length, np.zeros(size, np.float32)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Show a first vector."""
        super().reset(seed=seed, options=options)
        self._left = self._length
        return self._show(), {}

    def step(self, action: Any) -> StepResult:
        """Reward the repetition and show another vector."""
        reward = -float(np.mean((np.asarray(action) - self._shown) ** 2))
        self._left -= 1
        return self._show(), reward, self._left == 0, False, {}

    def _show(self) -> Array:
        self._shown = self.np_random.uniform(-1, 1, self._shown.shape).astype(np.float32)
        return self._shown.copy()


class Chain(gymnasium.Env[Any, Any]):
    """A corridor of n places: 1 goes right, 0 goes left; the right end gives reward 1 and ends the episode.

    The value of place s under discount g is exactly g ** (n - 2 - s). Episodes are truncated after 4 n env steps.

    n:  how many places
    """

    def __init__(self, n: int = 5) -> None:
        self.observation_space, self.action_space = spaces.Discrete(n), spaces.Discrete(2)
        self._n, self._place, self._steps = n, 0, 0

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Back to the left end."""
        super().reset(seed=seed, options=options)
        self._place = self._steps = 0
        return self._place, {}

    def step(self, action: Any) -> StepResult:
        """Move by one place."""
        self._steps += 1
        self._place = min(max(self._place + (1 if action == 1 else -1), 0), self._n - 1)
        arrived = self._place == self._n - 1
        return self._place, float(arrived), arrived, not arrived and self._steps >= 4 * self._n, {}


class Reach(gymnasium.Env[Any, Any]):
    """A point on a line that must be moved to a far end: reward 1 there, which ends the episode, and 0 on the way.

    It starts at a wall and moves by the action. Episodes are truncated after 4 n env steps, so that wandering about
    seldom arrives.

    n:  the distance of the end from the wall, in largest moves
    """

    def __init__(self, n: int = 5) -> None:
        self.observation_space = spaces.Box(0, 1, (1,), np.float32)
        self.action_space = spaces.Box(-1, 1, (1,), np.float32)
        self._n, self._place, self._steps = n, 0.0, 0

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Back to the wall."""
        super().reset(seed=seed, options=options)
        self._place, self._steps = 0.0, 0
        return self._shown(), {}

    def step(self, action: Any) -> StepResult:
        """Move by at most 1."""
        self._steps += 1
        self._place = min(max(self._place + float(np.clip(action[0], -1, 1)), 0.0), float(self._n))
        arrived = self._place >= self._n
        return self._shown(), float(arrived), arrived, not arrived and self._steps >= 4 * self._n, {}

    def _shown(self) -> Array:
        return np.array([self._place / self._n], np.float32)


class Cliff(gymnasium.Env[Any, Any]):
    """A walk along a cliff: one action of two goes on, the other falls; the last of n places gives reward 1.

    Which action goes on alternates (1, 0, 1, ...), so that nothing is learnt about one place from another. A random
    walker gets to the end once in 2 ** (n - 1) episodes (Schaul et al. 2016, the blind cliff walk).
    The value of place s under discount g is exactly g ** (n - 2 - s).

    n:  how many places
    """

    def __init__(self, n: int = 8) -> None:
        self.observation_space, self.action_space = spaces.Discrete(n), spaces.Discrete(2)
        self._n, self._place = n, 0

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Back to the beginning."""
        super().reset(seed=seed, options=options)
        self._place = 0
        return self._place, {}

    def step(self, action: Any) -> StepResult:
        """Go on, or fall."""
        if action == self._place % 2:
            return self._place, 0.0, True, False, {}
        self._place += 1
        arrived = self._place == self._n - 1
        return self._place, float(arrived), arrived, False, {}


class DelayedReward(gymnasium.Env[Any, Any]):
    """Only the first action counts, and its reward comes at the end: 1 for action 1, else 0.

    The observation is the share of the episode that is over, so a policy without memory can do it.

    delay:  env steps between the action and its reward
    """

    def __init__(self, delay: int = 10) -> None:
        self.observation_space, self.action_space = spaces.Box(0, 1, (1,), np.float32), spaces.Discrete(2)
        self._delay, self._steps, self._chosen = delay, 0, 0

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """A new episode."""
        super().reset(seed=seed, options=options)
        self._steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> StepResult:
        """Remember the first action; pay at the end."""
        if self._steps == 0:
            self._chosen = int(action)
        self._steps += 1
        over = self._steps > self._delay
        share = np.array([self._steps / (self._delay + 1)], np.float32)
        return share, float(over and self._chosen == 1), over, False, {}


class Recall(gymnasium.Env[Any, Any]):
    """A cue is shown in the first observation only; the last action must name it. Memory gets 1, none gets 1 / cues.

    The observation is the cue (one-hot, first observation only) and a flag "answer now". Every observation but the
    first is the same for all cues, so a policy without memory cannot do better than a guess: its expected return is
    exactly 1 / cues, whatever it does.

    cues:   how many different cues
    delay:  env steps between the cue and the answer
    """

    def __init__(self, cues: int = 2, delay: int = 4) -> None:
        if delay < 1:
            raise ValueError(f"delay must be at least 1 (else nothing need be remembered), not {delay}")
        self.observation_space, self.action_space = spaces.Box(0, 1, (cues + 1,), np.float32), spaces.Discrete(cues)
        self._cues, self._delay, self._steps, self._cue = cues, delay, 0, 0

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Show a cue."""
        super().reset(seed=seed, options=options)
        self._steps, self._cue = 0, int(self.np_random.integers(self._cues))
        observation = np.zeros(self._cues + 1, np.float32)
        observation[self._cue] = 1
        return observation, {}

    def step(self, action: Any) -> StepResult:
        """Blank until it is time to answer."""
        over = self._steps == self._delay
        reward = float(over and action == self._cue)
        self._steps += 1
        observation = np.zeros(self._cues + 1, np.float32)
        observation[-1] = self._steps == self._delay
        return observation, reward, over, False, {}
