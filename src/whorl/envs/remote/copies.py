"""The environments of a server: each is made when it is first needed, kept for the next session, made anew when it
raised."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from whorl.config.schema import EnvConfig
from whorl.envs.containment import CONTAINED, SideEffectsUndone, close_quietly, current_directory, is_users_interrupt
from whorl.envs.door import ObservationDoor, action_door, read_reset, read_step, refuse
from whorl.envs.probe import plain_spec
from whorl.envs.registry import Env, make_env
from whorl.errors import last_line
from whorl.types import Array, EnvSpec


class CopyRaised(Exception):
    """The environment raised; it is made anew by the next reset."""


class Copy:
    """One environment: a reset or a step writes the observation into the arrays it is bound to."""

    def __init__(self, config: EnvConfig, env: Env | None = None) -> None:
        self._config = config
        self._env = env
        self._undone = SideEffectsUndone(current_directory())
        self._door: ObservationDoor | None = None
        self._targets: Sequence[Array] = ()
        self._takes_steps = False

    def bind(self, targets: Sequence[Array]) -> None:
        """Where observations go from now on; whatever episode there was is over."""
        self._targets, self._takes_steps = targets, False

    def reset(self, seed: int) -> None:
        """Begin an episode."""
        self._takes_steps = False
        try:
            with self._undone:
                env = self._env = self._env or make_env(self._config.id, self._config.kwargs)
                result = env.reset(seed=seed)
        except CONTAINED as error:
            raise self._raised("reset", error) from error
        self._show(env, read_reset(result))
        self._takes_steps = True

    def step(self, action: Any) -> tuple[float, bool, bool, Any]:
        """Reward, terminated, truncated, and the ``info``, as it is."""
        env = self._env
        if env is None or not self._takes_steps:
            raise CopyRaised("step without a reset before it")
        try:
            with self._undone:
                result = env.step(action)
        except CONTAINED as error:
            raise self._raised("step", error) from error
        observation, reward, terminated, truncated, info = read_step(result)
        if not abs(reward) < float("inf"):
            raise refuse("reward", "a finite number", str(reward))
        self._show(env, observation)
        self._takes_steps = not (terminated or truncated)
        return reward, terminated, truncated, info

    def close(self) -> None:
        """Never raises, never hangs."""
        env, self._env, self._takes_steps = self._env, None, False
        if env is not None:
            with self._undone:
                close_quietly(env)

    def _show(self, env: Env, observation: Any) -> None:
        if self._door is None:
            self._door = ObservationDoor(env.observation_space, self._config.id, self._config.max_observation_bytes)
        self._door.write(observation, self._targets)
        refused = self._door.explain([target[None] for target in self._targets])
        if refused is not None:
            raise refused[1]

    def _raised(self, where: str, error: BaseException) -> BaseException:
        if is_users_interrupt(error):
            return error
        self.close()
        return CopyRaised(f"{where} raised {last_line(error)}")


class CopyPool:
    """At most ``most`` copies of one environment, lent to sessions."""

    spec: EnvSpec
    actions_for_env: Callable[[Array], Sequence[Any]]

    def __init__(self, config: EnvConfig, most: int) -> None:
        self.config, self.most, self._lent = config, most, 0
        env = make_env(config.id, config.kwargs)
        self.spec = plain_spec(config, env)
        self.actions_for_env = action_door(env.action_space)
        self._idle = [Copy(config, env)]

    @property
    def free(self) -> int:
        """Copies that nobody holds."""
        return self.most - self._lent

    def borrow(self, count: int) -> list[Copy]:
        """Copies for a session; the caller has looked at ``free``."""
        self._lent += count
        kept = [self._idle.pop() for _ in range(min(count, len(self._idle)))]
        return kept + [Copy(self.config) for _ in range(count - len(kept))]

    def give_back(self, copies: Sequence[Copy]) -> None:
        """The session is over."""
        self._lent -= len(copies)
        self._idle += copies

    def close(self) -> None:
        """Close those that nobody holds."""
        for copy in self._idle:
            copy.close()
        self._idle = []

    def forbids(self, actions: Array, stepped: Array) -> str:
        """Why actions must not reach an environment (a native one may crash of them), or nothing."""
        taken = actions[stepped]
        action = self.spec.action
        if action.kind == "box":
            return "" if bool(np.isfinite(taken).all()) else "an action that is not finite"
        within = (taken >= 0) & (taken < np.array(action.nvec).reshape(action.shape))
        return "" if bool(within.all()) else f"an action outside 0..{max(action.nvec) - 1}"
