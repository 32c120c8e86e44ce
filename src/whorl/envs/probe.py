"""Looking an environment over before the run: its spaces, its speed, and how it can be brought back.

An environment that offers its state gives two methods on the unwrapped object, ``get_state() -> bytes`` and
``set_state(bytes)``, which must bring back everything that its future depends on, its generator included. They are
tried here, and used only when the same actions then lead to the same observations.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from whorl.config.schema import EnvConfig
from whorl.envs.containment import SideEffectsUndone, close_quietly, current_directory
from whorl.envs.door import refuse
from whorl.envs.episode_metrics import metrics_of
from whorl.envs.forms import find_own_form
from whorl.envs.lane import Lane, StepRaised
from whorl.envs.parallel.env import spans_ranks
from whorl.envs.registry import Env, make_env
from whorl.envs.remote.address import kwargs_of
from whorl.envs.spaces import action_spec, observation_leaves, random_actions
from whorl.envs.stacking import with_frames
from whorl.errors import BadInputError, EnvironmentFault, last_line
from whorl.ops.keys import key
from whorl.types import Array, EnvSpec

_MOST_STEPS, _FEWEST_STEPS, _BUDGET_S = 20, 3, 1.0
_PROBE_SEED = key(0)


@dataclass(frozen=True)
class EnvProbe:
    """What a few steps tell."""

    spec: EnvSpec
    step_time_s: float
    """Median time of a step."""
    reset_time_s: float
    spans_ranks: bool = False
    """Whether several MPI ranks can step it together."""
    most_copies: int | None = None
    """Of a served environment: how many its server has."""
    warning: str = ""
    """Why the environment needs a process of its own: it died or hung while it was looked over (``probe_apart``); its
    ``step_time_s`` is then infinite, and how it can be restored was not tried."""


def probe_env(config: EnvConfig, on_spec: Callable[[EnvSpec], None] | None = None) -> EnvProbe:
    """Make the environment, take a few random steps, check what comes back, measure.

    Runs in this process: an environment that may kill it is looked over by ``check.probe_apart`` instead.
    ``on_spec`` is told what the spaces alone say before the first step is taken.
    """
    with SideEffectsUndone(current_directory()):
        env = make_env(config.id, kwargs_of(config))
        spec, parallel = plain_spec(config, env), spans_ranks(env)
        most_copies = getattr(env.unwrapped, "most_copies", None)
        close_quietly(env)
    if on_spec is not None:
        on_spec(spec)
    try:
        step_time_s, reset_time_s = _measure(config, spec)
    except StepRaised as error:
        raise EnvironmentFault(f"{error}; nothing but that in the first steps") from None
    tried_steps = _FEWEST_STEPS if step_time_s * _FEWEST_STEPS < _BUDGET_S else 1
    restore = _restore_mode(config, spec, tried_steps)
    spec = replace(spec, restore=restore, vector_form=_has_vector_form(config, spec))
    return EnvProbe(spec, step_time_s, reset_time_s, parallel, most_copies)


def plain_spec(config: EnvConfig, env: Env) -> EnvSpec:
    """The spec by the environment's spaces alone: restored by replay, without a vector form."""
    observation_space, action_space = _spaces_of(config, env)
    own_limit = env.spec.max_episode_steps if env.spec is not None else None
    leaves = observation_leaves(observation_space, config.id)
    for leaf in leaves:
        size_bytes = math.prod(leaf.shape) * np.dtype(leaf.dtype).itemsize
        if size_bytes > config.max_observation_bytes:
            raise BadInputError(
                f"{config.id}: the observation {leaf.name!r} has {size_bytes} bytes, more than "
                f"env.max_observation_bytes = {config.max_observation_bytes}"
            )
    return EnvSpec(
        env_id=config.id,
        observation=with_frames(env, leaves),
        action=action_spec(action_space, config.id),
        restore=_plain_restore(config, env),
        vector_form=False,
        max_episode_steps=min(config.max_episode_steps, own_limit or config.max_episode_steps),
        episode_metrics=metrics_of(env, config.id),
    )


def _plain_restore(config: EnvConfig, env: Env) -> Literal["replay", "none"]:
    """As asked; left open, as the environment's own metadata say (a served one says what its server was told)."""
    asked = env.metadata.get("restore") if config.restore == "auto" else config.restore
    return "none" if asked == "none" else "replay"


def _spaces_of(config: EnvConfig, env: Env) -> tuple[Any, Any]:
    try:
        return env.observation_space, env.action_space
    except Exception as error:
        raise BadInputError(f"{config.id}: its spaces cannot be read: {last_line(error)}") from error


def probe_lane(config: EnvConfig, spec: EnvSpec, lane: int = 0) -> tuple[Lane, list[Array]]:
    """A lane to try things on, and the arrays its observations go to."""
    env = Lane(config, spec, _PROBE_SEED, lane)
    targets = [np.zeros(leaf.shape, leaf.dtype) for leaf in spec.observation]
    env.bind(targets)
    return env, targets


def check_leaves(lane: Lane, targets: list[Array]) -> None:
    """The row's check for one lane: floats finite, integers in range."""
    refused = lane.door.explain([target[None] for target in targets])
    if refused is not None:
        raise lane.refusal(refused[1])


def _measure(config: EnvConfig, spec: EnvSpec) -> tuple[float, float]:
    """Median seconds of a step and of a reset. A step that raises is forgiven unless all do."""
    lane, targets = probe_lane(config, spec)
    steps_s: list[float] = []
    resets_s: list[float] = []
    try:
        resets_s.append(_timed(lambda: lane.begin(0)))
        check_leaves(lane, targets)
        stop_s = time.perf_counter() + _BUDGET_S
        for action in lane.actions_for_env(random_actions(spec.action, _MOST_STEPS, _PROBE_SEED)):
            ended = True
            try:
                started_s = time.perf_counter()
                reward, terminated, truncated = lane.step(action)
                steps_s.append(time.perf_counter() - started_s)
                check_reward_is_finite(lane, reward)
                ended = terminated or truncated
                check_leaves(lane, targets)
            except StepRaised:
                if not steps_s and lane.fault_count >= _FEWEST_STEPS:
                    raise
            if ended:
                resets_s.append(_timed(lambda: lane.begin(lane.episode + 1)))
            if steps_s and time.perf_counter() > stop_s:
                break
    finally:
        lane.close()
    return statistics.median(steps_s or [0.0]), statistics.median(resets_s)


def check_reward_is_finite(lane: Lane, reward: float) -> None:
    """The row's check for one reward."""
    with np.errstate(over="ignore"):
        is_finite = bool(np.isfinite(np.float32(reward)))
    if not is_finite:
        raise lane.refusal(refuse("reward", "a finite float32", str(reward)))


def _timed(action: Any) -> float:
    started_s = time.perf_counter()
    action()
    return time.perf_counter() - started_s


def _restore_mode(config: EnvConfig, spec: EnvSpec, tried_steps: int) -> Literal["snapshot", "replay", "none"]:
    if config.restore in ("replay", "none"):
        return config.restore
    if config.restore == "auto" and spec.restore == "none":
        return "none"
    if snapshot_works(config, spec, tried_steps):
        return "snapshot"
    if config.restore == "snapshot":
        raise BadInputError(
            f"{config.id} cannot be restored from a snapshot: it needs get_state() -> bytes and set_state(bytes) that "
            "bring back the same future; set env.restore to replay or none"
        )
    return "replay"


def snapshot_works(config: EnvConfig, spec: EnvSpec, steps: int = _FEWEST_STEPS) -> bool:
    """Whether the environment offers its state, and the state leads to the same future over this many steps."""
    lane, targets = probe_lane(config, replace(spec, restore="snapshot"))
    try:
        lane.begin(0)
        if not lane.offers_state():
            return False
        actions = list(lane.actions_for_env(random_actions(spec.action, 2 * steps, _PROBE_SEED)))
        for action in actions[:steps]:
            if any(lane.step(action)[1:]):
                lane.begin(lane.episode + 1)
        saved, episode = lane.snapshot(), lane.episode
        if saved is None:
            return False
        first = _future(lane, targets, actions[steps:])
        lane.close()
        return lane.restore(episode, saved) and _future(lane, targets, actions[steps:]) == first
    except StepRaised:
        return False
    finally:
        lane.close()


def _future(lane: Lane, targets: list[Array], actions: list[Any]) -> list[bytes]:
    seen = []
    for action in actions:
        ends = lane.step(action)
        seen.append(b"".join(target.tobytes() for target in targets) + repr(ends).encode())
        if ends[1] or ends[2]:
            break
    return seen


def _has_vector_form(config: EnvConfig, spec: EnvSpec) -> bool:
    from whorl.envs import gym_vector

    return find_own_form(config) is not None or gym_vector.vector_form_is_sound(config, spec)
