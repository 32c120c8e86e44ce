"""Gymnasium's vector environments as a vector form, in each of their autoreset modes.

A vector environment steps all its copies at once, so a copy that should reset while the others step is stepped (or
reset by itself, unseeded) with them, and then reset alone with its own seed. That costs one wasted step per episode
and makes the three modes give the same rows.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from whorl.config.schema import EnvConfig
from whorl.envs.containment import close_quietly
from whorl.envs.door import ObservationDoor
from whorl.envs.episode_metrics import read_batch
from whorl.envs.lane import Lane
from whorl.envs.registry import find_env
from whorl.envs.spaces import into_space, random_actions
from whorl.errors import last_line
from whorl.ops.keys import key, reset_seed
from whorl.types import Array, EnvSpec

_MODES = {
    "next_step": AutoresetMode.NEXT_STEP,
    "same_step": AutoresetMode.SAME_STEP,
    "disabled": AutoresetMode.DISABLED,
}
_PROBE_ROWS = 40


def make_vector_env(config: EnvConfig, copies: int) -> VectorEnv[Any, Any, Any]:
    """The vector form registered for an id (``vector_entry_point``)."""
    name, _ = find_env(config.id)
    asked: dict[str, Any] = {} if config.autoreset == "auto" else {"autoreset_mode": _MODES[config.autoreset]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return gymnasium.make_vec(
            name, num_envs=copies, vectorization_mode="vector_entry_point", **config.kwargs, **asked
        )


class GymForm:
    """A Gymnasium vector environment whose copies have seeds of their own and can be reset alone."""

    def __init__(
        self, env: VectorEnv[Any, Any, Any], config: EnvConfig, spec: EnvSpec, blocks: Sequence[Array]
    ) -> None:
        self._env, self._blocks, self._copies = env, blocks, len(blocks[0])
        self.door = ObservationDoor(env.single_observation_space, spec.env_id, config.max_observation_bytes)
        self._targets = [[block[index, ...] for block in blocks] for index in range(self._copies)]
        self._mode = AutoresetMode(env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP))
        self._in_space = into_space(env.single_action_space)
        self._action_dtype = env.action_space.dtype
        self._all_started = False
        self._metric_names = spec.episode_metrics
        self.metrics = np.full((self._copies, len(spec.episode_metrics)), np.nan)
        self.raised: dict[int, str] = {}
        """Nobody can tell which copy raised."""

    def restart(self, seeds: Mapping[int, int]) -> None:
        """Reset some copies, each with its own seed."""
        everyone: list[int | None] = [seeds.get(index) for index in range(self._copies)]
        if not self._all_started:
            options = None
            everyone = [0 if seed is None else seed for seed in everyone]
            self._all_started = True
        else:
            options = {"reset_mask": np.array([index in seeds for index in range(self._copies)], np.bool_)}
        observations, _ = self._env.reset(seed=everyone, options=options)  # type: ignore[arg-type]
        kept = [[target.copy() for target in self._targets[i]] for i in range(self._copies)]
        self.door.write_batch(observations, self._blocks)
        for index in range(self._copies):
            if index not in seeds:  # its row may be a final observation, which the environment no longer has
                for target, value in zip(self._targets[index], kept[index], strict=True):
                    target[...] = value

    def step(self, actions: Array, seeds: Mapping[int, int]) -> tuple[list[float], Array, Array]:
        """Step all; then reset those in ``seeds`` alone."""
        if seeds and self._mode is AutoresetMode.DISABLED:
            self.restart(seeds)  # a copy that ended may not be stepped
        taken = self._in_space(actions).astype(self._action_dtype, copy=False)
        observations, rewards, terminated, truncated, info = self._env.step(taken)
        self.door.write_batch(observations, self._blocks)
        terminated, truncated = np.array(terminated, np.bool_), np.array(truncated, np.bool_)
        if self._metric_names:
            same_step = self._mode is AutoresetMode.SAME_STEP
            told = info.get("final_info", {}) if same_step else info
            self.metrics = read_batch(told, self._metric_names, self._copies)
        if self._mode is AutoresetMode.SAME_STEP:
            for index in np.flatnonzero(terminated | truncated).tolist():
                self.door.write(_pick(info["final_obs"], index), self._targets[index])
        if seeds:
            self.restart(seeds)
        return np.asarray(rewards, np.float64).tolist(), terminated, truncated

    def close(self) -> None:
        """Never raises, never hangs."""
        close_quietly(self._env)


def _pick(batched: Any, index: int) -> Any:
    """One copy's final observation out of ``info``, whose Dicts are batched and whose arrays are objects."""
    if isinstance(batched, dict):
        return {name: _pick(value, index) for name, value in batched.items() if not name.startswith("_")}
    return batched[index]


def has_vector_form(config: EnvConfig) -> bool:
    """Whether one is registered."""
    name, creator = find_env(config.id)
    return creator is None and gymnasium.spec(name).vector_entry_point is not None


def autoreset_mode(config: EnvConfig) -> str:
    """The vector form's own autoreset mode, in words."""
    try:
        env = make_vector_env(config, 1)
    except Exception as error:
        return f"unknown ({last_line(error)})"
    mode = AutoresetMode(env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP))
    close_quietly(env)
    return next(name for name, known in _MODES.items() if known is mode)


def vector_form_is_sound(config: EnvConfig, spec: EnvSpec) -> bool:
    """Whether each copy has its own seed and can be reset alone, as far as a few dozen rows can tell.

    Three copies are compared with scalar ones, with two of them made alone, in another order, and with one of them
    reset on the way. Anything that raises or differs means no: where environments live must not change the results.
    """
    if not has_vector_form(config):
        return False
    with warnings.catch_warnings(), contextlib.suppress(Exception):
        warnings.simplefilter("ignore")
        actions = random_actions(spec.action, _PROBE_ROWS, key(0))
        three = _trace(config, spec, (0, 1, 2), actions, reset_at=None)
        return all(
            three[lane] == other[lane]
            for other, lanes in (
                ({lane: _scalar_trace(config, spec, lane, actions) for lane in (0, 1, 2)}, (0, 1, 2)),
                (_trace(config, spec, (1, 2), actions, reset_at=None), (1, 2)),
                (_trace(config, spec, (2, 0, 1), actions, reset_at=None), (0, 1, 2)),
                (_trace(config, spec, (0, 1, 2), actions, reset_at=1), (0, 2)),
            )
            for lane in lanes
        )
    return False


def _trace(
    config: EnvConfig, spec: EnvSpec, lanes: tuple[int, ...], actions: Array, reset_at: int | None
) -> dict[int, list[bytes]]:
    """What each lane sees over the probe's rows; lane ``reset_at`` is reset once in between."""
    blocks = [np.zeros((len(lanes), *leaf.shape), leaf.dtype) for leaf in spec.observation]
    env = make_vector_env(config, len(lanes))
    try:
        form = GymForm(env, config, spec, blocks)
        episodes = dict.fromkeys(lanes, 0)
        form.restart({position: reset_seed(0, lane, 0) for position, lane in enumerate(lanes)})
        seen: dict[int, list[bytes]] = {lane: [] for lane in lanes}
        over: set[int] = set()
        for row, action in enumerate(actions):
            resets = set(over)
            if reset_at is not None and row == _PROBE_ROWS // 4:
                resets.add(lanes.index(reset_at))
            for position in resets:
                episodes[lanes[position]] += 1
            seeds = {position: reset_seed(0, lanes[position], episodes[lanes[position]]) for position in resets}
            rewards, terminated, truncated = form.step(np.stack([action] * len(lanes)), seeds)
            over = set(np.flatnonzero(terminated | truncated).tolist()) - resets
            for position, lane in enumerate(lanes):
                ends = (0.0, False, False)
                if position not in resets:
                    ends = (rewards[position], bool(terminated[position]), bool(truncated[position]))
                seen[lane].append(_row_bytes([block[position, ...] for block in blocks], ends))
        return seen
    finally:
        close_quietly(env)


def _scalar_trace(config: EnvConfig, spec: EnvSpec, lane: int, actions: Array) -> list[bytes]:
    """What a scalar copy sees over the probe's rows."""
    env = Lane(config, spec, 0, lane)
    targets = [np.zeros(leaf.shape, leaf.dtype) for leaf in spec.observation]
    env.bind(targets)
    try:
        env.begin(0)
        seen, over = [], False
        for action in env.actions_for_env(actions):
            ends = (0.0, False, False)
            if over:
                env.begin(env.episode + 1)
                over = False
            else:
                ends = env.step(action)
                over = ends[1] or ends[2]
            seen.append(_row_bytes(targets, ends))
        return seen
    finally:
        env.close()


def _row_bytes(leaves: Sequence[Array], ends: tuple[float, bool, bool]) -> bytes:
    return b"".join(leaf.tobytes() for leaf in leaves) + repr(ends).encode()
