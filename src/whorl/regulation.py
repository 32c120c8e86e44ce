"""``whorl booster compare``: how well trained agents regulate, beside the regulators, on the very same episodes.

All episodes are played at once, greedily, from the seeds that ``whorl eval`` would use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from whorl.envs.forms import BOOSTERS
from whorl.envs.library.booster.controllers import (
    TUNED_ALPHA,
    TUNED_GAMMA,
    Controller,
    FeedForward,
    Oracle,
    Regulator,
    regulate,
)
from whorl.envs.library.booster.copies import Copies
from whorl.envs.library.booster.replayed import make_copies
from whorl.envs.registry import make_env
from whorl.errors import BadInputError
from whorl.evaluate import EVALUATION_LANE
from whorl.ops.keys import reset_seed
from whorl.policy import TrainedPolicy
from whorl.types import Array, Arrays


@dataclass(frozen=True)
class Regulated:
    """What one of them reached."""

    name: str
    error: float
    """Mean |IMINER|, A. An episode that was left early counts with its worst reward for every tick that it lacks."""
    converged: float
    """Share of ticks within the tolerance."""
    left_early: int
    """Episodes that ended outside the bounds."""


def compare(policies: Sequence[tuple[str, TrainedPolicy]], episodes: int, seed: int = 0) -> list[Regulated]:
    """The published regulator first, then the other controllers, then every policy."""
    envs = _make_envs(policies)
    copies = make_copies(envs[0].settings, episodes)
    copies.restart(_generators(episodes, seed))
    found = _baselines(copies)
    for (name, policy), env in zip(policies, envs, strict=True):
        copies.restart(_generators(episodes, seed))
        found.append(_play(name, policy, env, copies))
    return found


def _make_envs(policies: Sequence[tuple[str, TrainedPolicy]]) -> list[Any]:
    """Each policy's own, for the meaning of its actions; the episodes must be the same."""
    envs: list[Any] = []
    for name, policy in policies:
        config = policy.job.config.env
        if config.id not in BOOSTERS:
            raise BadInputError(f"{name}: was trained on {config.id}, which is not {' or '.join(BOOSTERS)}")
        envs.append(make_env(config.id, config.kwargs).unwrapped)
        if envs[-1].settings != envs[0].settings:
            raise BadInputError(f"{name}: was trained on other episodes than {policies[0][0]}: see their env.kwargs")
    return envs


def _generators(episodes: int, seed: int) -> dict[int, np.random.Generator]:
    return {
        episode: np.random.Generator(np.random.PCG64(reset_seed(seed, EVALUATION_LANE, episode)))
        for episode in range(episodes)
    }


def _baselines(copies: Copies) -> list[Regulated]:
    if copies.settings.surrogate is not None:
        errors = np.stack([copies.regulated(lane)[0] for lane in range(len(copies.ticks))])
        return [_of_errors("published regulator", errors, copies)]
    drawn = copies.signals.transpose(1, 0, 2)
    controllers: dict[str, Controller] = {
        "published regulator": Regulator(),
        "grid-tuned regulator": Regulator(TUNED_ALPHA, TUNED_GAMMA),
        "feed-forward": FeedForward(),
        "oracle": Oracle(drawn),
    }
    first = copies.settings.settling_ticks
    return [
        _of_errors(name, regulate(controller, drawn)[0][:, first:], copies) for name, controller in controllers.items()
    ]


def _of_errors(name: str, errors: Array, copies: Copies) -> Regulated:
    size = np.abs(errors)
    return Regulated(name, float(size.mean()), float((size <= copies.settings.tolerance).mean()), 0)


def _play(name: str, policy: TrainedPolicy, env: Any, copies: Copies) -> Regulated:
    lanes, ticks = len(copies.ticks), copies.settings.episode_ticks
    (leaf,) = policy.job.env.observation
    state: Arrays = {field.name: np.zeros((lanes, *field.shape), field.dtype) for field in policy.acting.spec.state}
    first, going, within = np.ones(lanes, np.bool_), np.ones(lanes, np.bool_), 0
    returned = np.zeros(lanes)
    for _ in range(ticks):
        acted = policy.acting.act(policy.weights, {leaf.name: copies.observation}, state, first, None)
        state, first = acted.state, np.zeros(lanes, np.bool_)
        rewards, terminated, _ = copies.step(env.changes_of(acted.actions))
        returned += np.where(going, rewards, 0)
        going &= ~terminated
        within += int((going & (np.abs(copies.error) <= copies.settings.tolerance)).sum())
    return Regulated(name, float(-returned.mean() / ticks), within / (lanes * ticks), int((~going).sum()))


def load_policies(run_dirs: Sequence[Path]) -> list[tuple[str, TrainedPolicy]]:
    """The newest policies of some runs, named after their directories."""
    from whorl.trainer import load_policy

    return [(path.name, load_policy(path)) for path in run_dirs]
