"""Environments that misbehave on purpose, so that users can rehearse: they crash, hang, or return nonsense.

When they do is drawn from their own seeded generator, so a fault comes again at the same step of the same episode.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from whorl.envs.library.around import Around, Info, StepResult, one_of

CRASHES = ("raise", "kill", "segfault", "exit0", "exit", "raise_reset", "raise_close")
HANGS = ("sleep", "gil", "spin")
WRONGS = ("shape", "dtype", "range", "missing_key", "space_changed", "huge")


class Faulty(Around):
    """Wraps an environment and decides when a fault is due.

    p:      probability of a fault at each env step
    at:     or the env step of an episode (from 1) at which it comes for certain
    share:  share of the episodes in which there is a fault at all, drawn at reset
    """

    def __init__(
        self, env: str = "CartPole-v1", p: float = 0.0, at: int | None = None, share: float = 1.0, **kwargs: Any
    ) -> None:
        super().__init__(env, **kwargs)
        self._p, self._at, self._share, self._is_due = p, at, share, True

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Draw whether this episode is one with a fault."""
        result = super().reset(seed=seed, options=options)
        self._is_due = self.draws.random() < self._share
        return result

    def fault_is_due(self) -> bool:
        """Whether the fault comes at the step under way."""
        drawn = self.draws.random() < self._p
        return self._is_due and (drawn if self._at is None else self.episode_steps == self._at)


class Crash(Faulty):
    """Crashes: raises, kills its own process, or exits. Wraps CartPole-v1 by default.

    how:    raise, kill (SIGKILL to itself), segfault, exit0 (os._exit(0)), exit (SystemExit), raise_reset
            (p and at count resets), raise_close
    p:      probability at each env step
    at:     or the env step of an episode (from 1) at which it crashes for certain
    share:  share of the episodes that crash at all
    env:    id of the environment to wrap (other arguments are passed on to it)
    """

    def __init__(self, how: str = "raise", p: float = 0.01, at: int | None = None, **kwargs: Any) -> None:
        self._how = one_of("how", how, CRASHES)
        self._resets = 0
        super().__init__(p=p, at=at, **kwargs)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Reset, or raise."""
        result = super().reset(seed=seed, options=options)
        self._resets += 1
        if self._how == "raise_reset" and (
            self.draws.random() < self._p if self._at is None else self._resets == self._at
        ):
            raise RuntimeError(f"whorl/Crash-v0 raised at reset {self._resets}, as asked")
        return result

    def step(self, action: Any) -> StepResult:
        """Step, or crash."""
        result = super().step(action)
        if self._how not in ("raise_reset", "raise_close") and self.fault_is_due():
            crash(self._how, f"whorl/Crash-v0 at env step {self.episode_steps}, as asked")
        return result

    def close(self) -> None:
        """Close, or raise."""
        super().close()
        if self._how == "raise_close":
            raise RuntimeError("whorl/Crash-v0 raised in close, as asked")


def crash(how: str, message: str) -> None:
    """End this process, or raise, in one of the ways of ``CRASHES``."""
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "segfault":
        ctypes.string_at(0)
    elif how == "exit0":
        os._exit(0)
    elif how == "exit":
        sys.exit(3)
    raise RuntimeError(message)


class Hang(Faulty):
    """A step that does not return: asleep, busy, or holding the interpreter's lock. Wraps CartPole-v1 by default.

    how:      sleep, spin (busy), gil (asleep in C with the interpreter locked, so that no thread runs)
    seconds:  how long
    p, at, share, env: as of whorl/Crash-v0
    """

    def __init__(self, how: str = "sleep", seconds: float = 3600.0, p: float = 0.01, **kwargs: Any) -> None:
        self._how, self._seconds = one_of("how", how, HANGS), seconds
        super().__init__(p=p, **kwargs)

    def step(self, action: Any) -> StepResult:
        """Step, then perhaps hang."""
        result = super().step(action)
        if self.fault_is_due():
            end_s = time.perf_counter() + self._seconds
            while (left_s := end_s - time.perf_counter()) > 0:
                if self._how == "sleep":
                    time.sleep(left_s)
                elif self._how == "gil":
                    ctypes.PyDLL(None).usleep(int(min(left_s, 3600) * 1e6))
        return result


class NotFinite(Faulty):
    """Returns nan or inf. Wraps CartPole-v1 by default.

    field:  obs or reward
    value:  nan or inf
    at:     the env step of an episode (from 1); p and share as of whorl/Crash-v0
    """

    def __init__(
        self, field: str = "obs", value: str = "nan", at: int | None = 5, p: float = 0.0, **kwargs: Any
    ) -> None:
        self._field = one_of("field", field, ("obs", "reward"))
        self._value = float(one_of("value", value, ("nan", "inf")))
        super().__init__(at=None if p else at, p=p, **kwargs)

    def step(self, action: Any) -> StepResult:
        """Step, and spoil one field when it is time."""
        observation, reward, terminated, truncated, info = super().step(action)
        if self.fault_is_due():
            if self._field == "reward":
                reward = self._value
            else:
                observation = observation.copy()
                observation.flat[-1] = self._value
        return observation, reward, terminated, truncated, info


class WrongShape(gymnasium.Env[Any, Any]):
    """Returns something its spaces forbid: a Dict of ``position`` (4 floats) and ``mode`` (Discrete 3), until it errs.

    how:  shape (5 floats), dtype (integers), range (mode 7), missing_key (no mode), space_changed (another space
          and 6 floats from the second episode on), huge (500 MB)
    at:   the env step of an episode (from 1) at which it errs; episodes have 10 env steps
    """

    def __init__(self, how: str = "shape", at: int = 5) -> None:
        self._how, self._at = one_of("how", how, WRONGS), at
        self._space(4)
        self.action_space = spaces.Discrete(2)
        self._steps, self._resets = 0, 0

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """A new episode, perhaps with another space."""
        super().reset(seed=seed, options=options)
        self._steps = 0
        self._resets += 1
        if self._how == "space_changed" and self._resets > 1:
            self._space(6)
            return {"position": np.zeros(6, np.float32), "mode": 0}, {}
        return self._good(), {}

    def step(self, action: Any) -> StepResult:  # noqa: ARG002
        """Something good, until it is time for something wrong."""
        self._steps += 1
        observation = self._good()
        if self._steps == self._at:
            if self._how == "shape":
                observation["position"] = np.zeros(5, np.float32)
            elif self._how == "dtype":
                observation["position"] = np.zeros(4, np.int64)
            elif self._how == "range":
                observation["mode"] = 7
            elif self._how == "missing_key":
                del observation["mode"]
            elif self._how == "huge":
                observation["position"] = np.zeros(62_500_000, np.float64)
        return observation, 0.0, self._steps >= 10, False, {}

    def _space(self, size: int) -> None:
        self.observation_space = spaces.Dict(position=spaces.Box(-10, 10, (size,), np.float32), mode=spaces.Discrete(3))

    def _good(self) -> dict[str, Any]:
        position = self.np_random.uniform(-1, 1, 4).astype(np.float32)
        return {"position": position, "mode": int(self.np_random.integers(3))}
