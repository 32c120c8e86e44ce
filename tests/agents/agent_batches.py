"""Specs, trajectories and a plain update loop for agents: no engine, no environment, no process."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from whorl.agents.contract import LearnerSettings, Learning, Policy, Progress
from whorl.ops.noise import uniform
from whorl.types import ActionSpec, Array, Arrays, EnvSpec, Layout, ObservationLeaf

DISCRETE = ActionSpec("discrete", (), "int64", (3,))
MULTI = ActionSpec("multi_discrete", (2,), "int64", (3, 2))
BOX = ActionSpec("box", (3,), "float32", (), (-2.0, -1.0, -np.inf), (2.0, 3.0, np.inf))
BOUNDED = ActionSpec("box", (2,), "float32", (), (-2.0, -1.0), (2.0, 3.0))
VECTOR = ObservationLeaf("obs", "vector", (5,), "float32")
PLACE = ObservationLeaf("place", "discrete", (), "int64", 0, 3, 4)
IMAGE = ObservationLeaf("camera", "image", (3, 12, 10), "uint8", 0, 255)


def env_spec(observation: tuple[ObservationLeaf, ...] = (VECTOR,), action: ActionSpec = DISCRETE) -> EnvSpec:
    return EnvSpec("test", observation, action, "replay", False, 100)


def settings(shards: int = 1, lanes: int = 8, compile: bool = False) -> LearnerSettings:
    return LearnerSettings(seed=3, device="cpu", threads=1, compile=compile, shards=shards, lanes=lanes)


def random_observation(env: EnvSpec, *leading: int, seed: int = 0) -> Arrays:
    rng, observation = np.random.default_rng(seed), {}
    for leaf in env.observation:
        if leaf.kind == "vector":
            observation[leaf.name] = rng.standard_normal((*leading, *leaf.shape)).astype(leaf.dtype)
        else:
            high = leaf.n if leaf.kind == "discrete" else 256
            observation[leaf.name] = rng.integers(0, high, (*leading, *leaf.shape)).astype(leaf.dtype)
    return observation


Reward = Callable[[Arrays, Array, int], Array]
"""(observation, actions, row) to rewards [lanes]."""


def collect(
    policy: Policy,
    weights: Array,
    env: EnvSpec,
    lanes: int,
    update: int = 0,
    episode_rows: int = 5,
    reward: Reward | None = None,
    observe: Callable[[int, Arrays], None] | None = None,
) -> Arrays:
    """One trajectory of random observations. Episodes of ``episode_rows`` rows (all lanes together) are ended in turn
    by a terminal and a truncation, and each is followed by its final row. ``observe`` may edit a row's observation."""
    spec, views = policy.spec, policy.spec.weights.views(weights)
    rows = spec.rows + 1
    observation = random_observation(env, rows, lanes, seed=update)
    period = episode_rows + 1
    place = np.arange(rows) % period
    valid = np.repeat((place < episode_rows)[:, None], lanes, axis=1)
    first = np.repeat((place == 0)[:, None], lanes, axis=1)
    ends = (place == episode_rows - 1)[: spec.rows]
    odd = (np.arange(spec.rows) // period) % 2 == 1
    trajectory: Arrays = {
        "first": first,
        "valid": valid,
        "terminated": np.repeat((ends & ~odd)[:, None], lanes, axis=1),
        "truncated": np.repeat((ends & odd)[:, None], lanes, axis=1),
        "action": np.zeros((spec.rows, lanes, *env.action.shape), env.action.dtype),
        "reward": np.zeros((spec.rows, lanes), np.float32),
        "discounted_return": np.zeros((spec.rows, lanes), np.float32),
        "version": np.full(spec.rows, update, np.int64),
    }
    trajectory |= {f.name: np.zeros((spec.rows, lanes, *f.shape), f.dtype) for f in spec.fields}
    state = {f.name: np.zeros((lanes, *f.shape), f.dtype) for f in spec.state}
    trajectory |= {f"state/{name}": array.copy() for name, array in state.items()}
    noise = uniform(1, f"update {update}", np.arange(lanes), 0, rows, spec.noise_width)
    running = np.zeros(lanes, np.float32)
    for t in range(rows):
        row = {name: array[t] for name, array in observation.items()}
        if observe is not None:
            observe(int(place[t]), row)
        if t == spec.rows:
            break
        actions, fields, state = policy.act(views, row, state, first[t], noise[t])
        trajectory["action"][t] = actions
        for name, array in fields.items():
            trajectory[name][t] = array
        if valid[t, 0]:
            earned = (
                np.sin(actions.reshape(lanes, -1).sum(axis=1)) if reward is None else reward(row, actions, place[t])
            )
            trajectory["reward"][t] = earned
        running = running * np.float32(spec.discount) * ~first[t] + trajectory["reward"][t]
        trajectory["discounted_return"][t] = running
    return trajectory | {f"obs/{name}": array for name, array in observation.items()}


def cut(trajectory: Arrays, shards: int) -> list[Arrays]:
    """The lanes of a trajectory in equal contiguous parts."""
    lanes = trajectory["reward"].shape[1]
    parts: list[Arrays] = []
    for shard in range(shards):
        at = slice(shard * lanes // shards, (shard + 1) * lanes // shards)
        part = {}
        for name, array in trajectory.items():
            if name == "version":
                part[name] = array
            else:
                part[name] = np.ascontiguousarray(array[at] if name.startswith("state/") else array[:, at])
        parts.append(part)
    return parts


def summed(layout: Layout, buffers: Sequence[Array]) -> Array:
    """Plain additions, field by field, in the order given."""
    total = buffers[0].copy()
    views = layout.views(total)
    for buffer in buffers[1:]:
        for name, array in layout.views(buffer).items():
            views[name] += array
    return total


def update(learners: Sequence[Learning], shards: Sequence[Arrays], number: int, total_updates: int = 100) -> dict:
    """One update; learners own equal contiguous parts of the shards."""
    each = len(shards) // len(learners)
    owned = [range(i * each, (i + 1) * each) for i in range(len(learners))]
    progress = Progress(number, number * 100, total_updates * 100)
    for learner, mine in zip(learners, owned, strict=True):
        learner.begin({shard: shards[shard] for shard in mine}, progress)
    plans = [learner.plan((3, number)) for learner in learners]
    for steps in zip(*plans, strict=True):
        assert len(set(steps)) == 1
        buffers = [
            learner.contribute(steps[0], shard) for learner, mine in zip(learners, owned, strict=True) for shard in mine
        ]
        total = summed(learners[0].spec.contribution, buffers)
        for learner in learners:
            learner.apply(steps[0], total.copy())
    metrics = [learner.finish() for learner in learners]
    return metrics[0]
