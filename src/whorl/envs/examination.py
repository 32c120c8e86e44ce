"""What the child of ``whorl check-env`` does: try everything a run would ask of an environment, and note what fails."""

from __future__ import annotations

import os
import signal
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

from whorl.config.schema import EnvConfig
from whorl.envs import gym_vector
from whorl.envs.containment import CONTAINED, close_quietly, current_directory
from whorl.envs.door import action_door
from whorl.envs.forms import find_own_form
from whorl.envs.lane import Refused, StepRaised
from whorl.envs.probe import check_leaves, check_reward_is_finite, plain_spec, probe_lane, snapshot_works
from whorl.envs.registry import find_env, make_env
from whorl.envs.remote.address import kwargs_of
from whorl.envs.spaces import random_actions
from whorl.errors import BadInputError, EnvironmentFault, MissingExtraError, last_line
from whorl.types import EnvSpec

Say = Callable[[str], None]

_MOST_STEPS, _BUDGET_S, _COMPARED_STEPS = 300, 5.0, 50

_MEND_VALUE = "return what the spaces say, or declare the spaces it really has"
_MEND_FINITE = (
    "find what becomes nan or inf (a division, a logarithm, a simulation that diverges); clip it, or end there"
)
_MEND_RAISED = "mend the exception; a run survives it, but the episode ends by a fault each time"


def examine(config: EnvConfig, say: Say) -> dict[str, Any]:
    """Findings and facts as plain values."""
    findings: list[dict[str, str]] = []
    say("making it")
    find_env(config.id)
    try:
        env = make_env(config.id, kwargs_of(config))
        spec = plain_spec(config, env)
    except MissingExtraError:
        raise
    except BadInputError as error:
        mend = "give it arguments it takes (env.kwargs), and spaces that are supported (wrap it where they are not)"
        return {"findings": [_finding(str(error), "making it, and its spaces", mend)], "facts": {}}
    facts: dict[str, Any] = {
        "observation": [f"{leaf.name}: {leaf.kind} {leaf.dtype}{list(leaf.shape)}" for leaf in spec.observation],
        "action": _describe_action(spec),
    }
    findings += _side_effects(env, spec, say)
    try:
        facts |= _walk(config, spec, findings, say)
        if not findings:
            facts |= _determinism(config, spec, findings, say)
            say("looking for a vector form")
            facts |= _vector_form(config, spec)
    except Refused as error:
        mend = _MEND_FINITE if "finite" in error.reason else _MEND_VALUE
        findings.append(_finding(error.reason, error.where, mend))
    except EnvironmentFault as error:
        findings.append(_finding(str(error), "again and again", _MEND_RAISED))
    return {"findings": findings, "facts": facts}


def _finding(what: str, where: str, mend: str) -> dict[str, str]:
    return {"what": what, "where": where, "mend": mend}


def _describe_action(spec: EnvSpec) -> str:
    action = spec.action
    if action.kind == "box":
        return f"box float32{list(action.shape)}, {min(action.low):g}..{max(action.high):g}"
    return f"{action.kind} {', '.join(map(str, action.nvec))}"


def _side_effects(env: Any, spec: EnvSpec, say: Say) -> list[dict[str, str]]:
    """What it does outside itself: directory, signal handlers, threads, descriptors."""
    say("watching its side effects")
    directory = current_directory()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    threads, descriptors = threading.active_count(), len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    steps = 0
    try:
        env.reset(seed=1)
        for action in action_door(env.action_space)(random_actions(spec.action, 30, 1)):
            say(f"env step {steps + 1} of a first try")
            steps += 1
            _, _, terminated, truncated, *_ = env.step(action)
            if terminated or truncated:
                env.reset()
    except CONTAINED:
        pass  # the walk tells
    found = []
    if current_directory() != directory:
        where = f"the working directory became {current_directory()}"
        found.append(_finding("it changes the working directory", where, "use absolute paths; lanes share one process"))
    for number, handler in handlers.items():
        if signal.getsignal(number) is not handler:
            mend = "leave signals alone: a run saves itself when it gets them"
            found.append(_finding(f"it sets a handler of its own for {number.name}", "make, reset or step", mend))
    grown = {
        "threads": threading.active_count() - threads,
        "descriptors": len(os.listdir("/proc/self/fd")) - descriptors,  # noqa: PTH208
    }
    for name, count in grown.items():
        if steps and count >= max(5, steps // 2):
            mend = "give back what a step takes; until then set env.hosting to process"
            found.append(_finding(f"it leaks {name}: {count} more", f"within {steps} env steps", mend))
    try:
        env.close()
    except CONTAINED as error:
        found.append(
            _finding(f"close raised {last_line(error)}", "close", "let close return; a run ignores the exception")
        )
    return found


def _walk(config: EnvConfig, spec: EnvSpec, findings: list[dict[str, str]], say: Say) -> dict[str, Any]:
    """Random steps over some episodes: values, exceptions, speed."""
    lane, targets = probe_lane(config, spec)
    steps_s: list[float] = []
    resets_s: list[float] = []

    def begin(episode: int) -> None:
        say(f"the reset of episode {episode}")
        started_s = time.perf_counter()
        lane.begin(episode)
        resets_s.append(time.perf_counter() - started_s)
        check_leaves(lane, targets)

    try:
        begin(0)
        stop_s = time.perf_counter() + _BUDGET_S
        for action in lane.actions_for_env(random_actions(spec.action, _MOST_STEPS, 2)):
            say(f"episode {lane.episode}, env step {lane.episode_steps + 1}")
            is_over = True
            try:
                started_s = time.perf_counter()
                reward, terminated, truncated = lane.step(action)
                steps_s.append(time.perf_counter() - started_s)
                check_reward_is_finite(lane, reward)
                check_leaves(lane, targets)
                is_over = terminated or truncated
            except StepRaised:
                pass  # noted in lane.faults
            if is_over:
                begin(lane.episode + 1)
            if time.perf_counter() > stop_s:
                break
    finally:
        lane.close()
    for text in list(lane.faults)[:3]:
        where, _, what = text.partition(" raised ")
        place, _, method = where.rpartition(": ")
        findings.append(_finding(f"{method} raised {what}", place.removeprefix(f"{config.id}: "), _MEND_RAISED))
    return {
        "steps_per_s": round(len(steps_s) / sum(steps_s), 1) if steps_s else 0.0,
        "step_time_s": statistics.median(steps_s or [0.0]),
        "reset_time_s": statistics.median(resets_s),
        "episodes": f"{len(resets_s) - 1} ended within {len(steps_s)} env steps; cut at {spec.max_episode_steps}",
    }


def _determinism(config: EnvConfig, spec: EnvSpec, findings: list[dict[str, str]], say: Say) -> dict[str, Any]:
    """The same seed twice and another one; and so, how a lost lane can come back."""
    say("stepping the same episode again")
    once, again, other = (_trajectory(config, spec, lane) for lane in (0, 0, 1))
    deterministic = once == again
    if not deterministic:
        step = next(index for index, (a, b) in enumerate(zip(once, again, strict=False)) if a != b)
        mend = "take all randomness from self.np_random, seeded by reset(seed=...); else set env.restore to none"
        findings.append(_finding("the same seed and actions lead elsewhere", f"env step {step} of an episode", mend))
    say("saving and bringing back its state")
    works = snapshot_works(config, spec)
    if not works and _offers_state(config):
        mend = "let get_state return bytes that set_state brings back, or leave both out: episodes are stepped again"
        findings.append(_finding("the state it saves does not lead to the same future", "get_state, set_state", mend))
    restore = "snapshot" if works else "replay" if deterministic else "none"
    return {"deterministic": deterministic, "seeds_matter": once != other, "restore": f"{restore} (tried)"}


def _offers_state(config: EnvConfig) -> bool:
    env = make_env(config.id, config.kwargs)
    try:
        return all(callable(getattr(env.unwrapped, name, None)) for name in ("get_state", "set_state"))
    finally:
        close_quietly(env)


def _trajectory(config: EnvConfig, spec: EnvSpec, lane_index: int) -> list[bytes]:
    """Everything one lane sees in its first steps; the first entry is the reset."""
    lane, targets = probe_lane(config, spec, lane_index)
    try:
        lane.begin(0)
        seen = [b"".join(target.tobytes() for target in targets)]
        for action in lane.actions_for_env(random_actions(spec.action, _COMPARED_STEPS, 3)):
            ends = lane.step(action)
            seen.append(b"".join(target.tobytes() for target in targets) + repr(ends).encode())
            if ends[1] or ends[2]:
                lane.begin(lane.episode + 1)
        return seen
    finally:
        lane.close()


def _vector_form(config: EnvConfig, spec: EnvSpec) -> dict[str, Any]:
    """Which vector form would be used, and its own autoreset mode."""
    if find_own_form(config) is not None:
        return {"vector_form": "our own", "autoreset": "not needed"}
    if not gym_vector.has_vector_form(config):
        return {"vector_form": "none registered", "autoreset": "not needed"}
    sound = gym_vector.vector_form_is_sound(config, spec)
    form = "registered, and used" if sound else "registered, not used: its copies lack seeds or resets of their own"
    return {"vector_form": form, "autoreset": gym_vector.autoreset_mode(config)}
