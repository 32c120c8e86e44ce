"""One lane: a Gymnasium environment with its seed, its cap and its faults, whatever process it lives in."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from whorl.config.schema import EnvConfig
from whorl.envs.containment import (
    CONTAINED,
    SideEffectsUndone,
    close_quietly,
    current_directory,
    is_users_interrupt,
)
from whorl.envs.door import ObservationDoor, RefusedValue, action_door, read_reset, read_step, refuse
from whorl.envs.episode_metrics import read_metrics
from whorl.envs.registry import Env, make_env
from whorl.envs.remote.address import kwargs_of
from whorl.envs.spaces import action_spec
from whorl.envs.stacking import with_frames
from whorl.errors import BadInputError, EnvironmentFault, last_line
from whorl.ops.keys import reset_seed
from whorl.types import Array, EnvSpec

MAX_CONSECUTIVE_FAULTS = 10
"""Faults of one lane without a single good step in between before the run gives up."""

_SNAPSHOT_HEADER = struct.Struct("<qq")  # steps of the episode, steps counted by Gymnasium's TimeLimit (-1: none)


def pack_snapshot(episode_steps: int, state: bytes, elapsed: int = -1) -> bytes:
    """A saved state with the steps of its episode, as we count them and as Gymnasium's TimeLimit does (-1: none)."""
    return _SNAPSHOT_HEADER.pack(episode_steps, elapsed) + state


def unpack_snapshot(snapshot: bytes) -> tuple[int, bytes]:
    """The steps of its episode, and the state."""
    return _SNAPSHOT_HEADER.unpack_from(snapshot)[0], snapshot[_SNAPSHOT_HEADER.size :]


class StepRaised(Exception):
    """The environment raised in ``step``: the episode ends by a fault, and the next ``begin`` makes it anew."""


class Refused(EnvironmentFault):
    """An environment returned something its spaces forbid; trying again would not mend it."""

    def __init__(self, env_id: str, where: str, reason: str) -> None:
        super().__init__(f"{env_id}: {where}: {reason}; `whorl check-env {env_id}` tells more")
        self.where, self.reason = where, reason


class Lane:
    """One environment.

    lane.bind(targets)                  # where observations go, one array per leaf
    lane.begin(episode)                 # reset with the seed of this lane and episode
    reward, terminated, truncated = lane.step(action)

    Values that the spaces forbid raise ``EnvironmentFault`` at once: trying again would not mend them. Exceptions of
    the environment are contained, up to ``MAX_CONSECUTIVE_FAULTS`` without a good step in between. ``info`` is dropped,
    but for the metrics of an episode that ended.
    """

    door: ObservationDoor
    """Checks what the environment returns; there once it was made."""
    actions_for_env: Callable[[Array], Sequence[Any]]
    """From actions [n, *shape] to what ``step`` takes."""

    def __init__(self, config: EnvConfig, spec: EnvSpec, seed: int, lane: int) -> None:
        self.config, self.spec, self.seed, self.index = config, spec, seed, lane
        self.episode, self.episode_steps = 0, 0
        self.metrics: tuple[float, ...] = ()
        """Of the episode that ended with the last step, where the environment has any."""
        self.faults: deque[str] = deque(maxlen=20)
        self.fault_count = 0
        self._faults_in_a_row = 0
        self._env: Env | None = None
        self._was_made = False
        self._undone = SideEffectsUndone(current_directory())
        self._targets: Sequence[Array] = ()

    def bind(self, targets: Sequence[Array]) -> None:
        """Where observations are written: an array of shape ``leaf.shape`` for each leaf."""
        self._targets = targets

    def prepare(self, episode: int) -> None:
        """Make the environment without a reset: for a lane whose episode is over."""
        self.episode = episode
        if self._env is None:
            self._make()

    def begin(self, episode: int, attempt: int = 0) -> None:
        """Reset for an episode, making the environment where there is none. A reset that raises is tried again, with
        another seed (that of the next ``attempt``): the same one might raise for ever."""
        self.episode, self.episode_steps = episode, 0
        while True:
            try:
                env = self._env or self._make()
                with self._undone:
                    result = env.reset(
                        seed=reset_seed(self.seed, self.index, episode, attempt), **self._reset_arguments(env)
                    )
            except CONTAINED as error:
                if is_users_interrupt(error) or isinstance(error, EnvironmentFault):
                    raise
                if isinstance(error, BadInputError) and not self._was_made:
                    raise
                self._note_fault("reset", error)
                attempt += 1
                continue
            try:
                self.door.write(read_reset(result), self._targets)
            except RefusedValue as error:
                raise self.refusal(error) from None
            return

    def step(self, action: Any) -> tuple[float, bool, bool]:
        """Reward, terminated, truncated; the observation is in the bound arrays. ``StepRaised`` when it raised."""
        try:
            result = self._env_step(action)
        except CONTAINED as error:
            if is_users_interrupt(error) or isinstance(error, EnvironmentFault):
                raise
            raise StepRaised(self._note_fault("step", error)) from error
        self.episode_steps = steps = self.episode_steps + 1
        try:
            observation, reward, terminated, truncated, info = read_step(result)
            self.door.write(observation, self._targets)
        except RefusedValue as error:
            raise self.refusal(error) from None
        self._faults_in_a_row = 0
        truncated = truncated or steps >= self._max_episode_steps
        if (terminated or truncated) and self.spec.episode_metrics:
            self.metrics = read_metrics(info, self.spec.episode_metrics)
        return reward, terminated, truncated

    def refusal(self, reason: RefusedValue) -> EnvironmentFault:
        """The door's reason, with the environment, the lane and the step."""
        where = f"lane {self.index}, episode {self.episode}, env step {self.episode_steps}"
        return Refused(self.spec.env_id, where, str(reason))

    def offers_state(self) -> bool:
        """Whether the environment has ``get_state`` and ``set_state``."""
        env = self._env.unwrapped if self._env is not None else None
        return callable(getattr(env, "get_state", None)) and callable(getattr(env, "set_state", None))

    def snapshot(self) -> bytes | None:
        """The environment's own saved state with our step counts, or None where it offers none."""
        if self.spec.restore != "snapshot" or self._env is None:
            return None
        try:
            state = self._env.unwrapped.get_state()  # type: ignore[attr-defined]
        except CONTAINED as error:
            if is_users_interrupt(error):
                raise
            return None
        if not isinstance(state, bytes | bytearray | memoryview):
            return None
        return pack_snapshot(self.episode_steps, bytes(state), _elapsed(self._env))

    def restore(self, episode: int, snapshot: bytes) -> bool:
        """Bring a saved state back; False when the environment would not take it."""
        self.begin(episode)
        env = self._env
        try:
            self.episode_steps, elapsed = _SNAPSHOT_HEADER.unpack_from(snapshot)
            env.unwrapped.set_state(snapshot[_SNAPSHOT_HEADER.size :])  # type: ignore[union-attr]
            _set_elapsed(env, elapsed)
        except (*CONTAINED, struct.error) as error:
            if is_users_interrupt(error):
                raise
            self._note_fault("set_state", error)
            return False
        return True

    def replay(self, episode: int, actions: Array, observation: Sequence[Array]) -> bool:
        """Reset and step an episode's actions again; True when it arrives, unended, at this very observation."""
        self.begin(episode)
        try:
            for action in self.actions_for_env(actions):
                _, terminated, truncated = self.step(action)
                if terminated or truncated:
                    break
        except StepRaised:
            return False
        same = self.episode_steps == len(actions) and (len(actions) == 0 or not (terminated or truncated))
        return same and all(
            mine.tobytes() == np.asarray(wanted).tobytes()
            for mine, wanted in zip(self._targets, observation, strict=True)
        )

    def close(self) -> None:
        """Close the environment; never raises, never hangs."""
        env, self._env = self._env, None
        if env is not None:
            with self._undone:
                close_quietly(env)

    def _reset_arguments(self, env: Env) -> dict[str, Any]:
        """``options`` where the environment names some for Whorl's episodes: one that follows on the last by more than
        its seed, which only a snapshot can bring back."""
        options = getattr(env.unwrapped, "episode_options", None) if self.spec.restore == "snapshot" else None
        return {} if options is None else {"options": options}

    def _make(self) -> Env:
        with self._undone:
            env = make_env(self.config.id, kwargs_of(self.config))
        door = ObservationDoor(env.observation_space, self.spec.env_id, self.config.max_observation_bytes)
        action = action_spec(env.action_space, self.spec.env_id)
        leaves = with_frames(env, door.leaves)
        if leaves != self.spec.observation or action != self.spec.action:
            expected, got = (self.spec.observation, self.spec.action), (leaves, action)
            raise self.refusal(refuse("spaces", f"those probed at the start ({expected})", str(got)))
        self.door = door
        self.actions_for_env = action_door(env.action_space)
        self._env, self._env_step, self._was_made = env, env.step, True
        self._max_episode_steps = self.spec.max_episode_steps
        return env

    def _note_fault(self, where: str, error: BaseException) -> str:
        """Count a fault, drop the environment, and give up when nothing but faults comes."""
        step = self.episode_steps + (where == "step")
        text = (
            f"{self.spec.env_id}: lane {self.index}, episode {self.episode}, env step {step}: "
            f"{where} raised {last_line(error)}"
        )
        self.faults.append(text)
        self.fault_count += 1
        self._faults_in_a_row += 1
        self.close()
        if self._faults_in_a_row > MAX_CONSECUTIVE_FAULTS:
            raise EnvironmentFault(f"{text}; that was fault {self._faults_in_a_row} without a good step in between")
        return text


def _time_limits(env: Any) -> list[Any]:
    """Gymnasium's TimeLimit wrappers, outermost first: their counts are part of the state."""
    found = []
    while env is not None and env is not env.unwrapped:
        if hasattr(env, "_elapsed_steps"):
            found.append(env)
        env = getattr(env, "env", None)
    return found


def _elapsed(env: Any) -> int:
    limits = _time_limits(env)
    elapsed = limits[0]._elapsed_steps if limits else None
    return -1 if elapsed is None else int(elapsed)


def _set_elapsed(env: Any, elapsed: int) -> None:
    for limit in _time_limits(env) if elapsed >= 0 else ():
        limit._elapsed_steps = elapsed
