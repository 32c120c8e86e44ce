"""Evaluation: whole episodes in fresh environments with a trained policy, on film where wished."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from whorl.envs.containment import CONTAINED, close_quietly, is_users_interrupt
from whorl.envs.door import RefusedValue, check_reward, refuse
from whorl.envs.episode_metrics import read_metrics
from whorl.envs.registry import Env, make_env
from whorl.errors import BadInputError, EnvironmentFault, WhorlError, last_line
from whorl.film import Film, make_filmed_env
from whorl.ops.keys import reset_seed
from whorl.policy import RefusedObservation, TrainedPolicy
from whorl.trajectory.episodes import TRUE_RETURN

EVALUATION_LANE = 2**40
"""Far from any training lane, so that no evaluation episode was ever trained on."""


@dataclass
class Evaluation:
    """Returns and lengths of the episodes played, and what the environment tells of them besides."""

    returns: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    metrics: dict[str, list[float]] = field(default_factory=dict)
    video: Path | None = None

    def summary(self) -> dict[str, float]:
        """Means and spreads; of the environment's own metrics the means where they were told."""
        told = {name: [value for value in values if math.isfinite(value)] for name, values in self.metrics.items()}
        return {
            "episodes": len(self.returns),
            "return_mean": float(np.mean(self.returns)),
            "return_std": float(np.std(self.returns)),
            "return_min": float(np.min(self.returns)),
            "return_max": float(np.max(self.returns)),
            "length_mean": float(np.mean(self.lengths)),
            **{f"{name}_mean": float(np.mean(values)) for name, values in told.items() if values},
        }


def evaluate(policy: TrainedPolicy, episodes: int = 10, *, seed: int = 0, video: Path | None = None) -> Evaluation:
    """Play whole episodes greedily, the same ones for the same seed; with ``video``, film the first."""
    if episodes < 1:
        raise BadInputError(f"episodes: expected at least 1, got {episodes}")
    config = policy.job.config.env
    env = make_env(config.id, config.kwargs) if video is None else make_filmed_env(config.id, config.kwargs)
    result = Evaluation(video=video)
    others = [name for name in policy.job.env.episode_metrics if name != TRUE_RETURN]
    try:
        for episode in range(episodes):
            with Film(video, env) if video is not None and episode == 0 else nullcontext() as film:
                returned, length, info = _play(env, policy, seed, episode, film)
            result.returns.append(returned)
            result.lengths.append(length)
            for name, value in zip(others, read_metrics(info, others), strict=True):
                result.metrics.setdefault(name, []).append(value)
    finally:
        close_quietly(env)
    return result


def _play(env: Env, policy: TrainedPolicy, seed: int, episode: int, film: Film | None) -> tuple[float, int, Any]:
    """Return, length and last ``info`` of one episode. What the environment does wrong is one line that says when."""
    spec, steps, rewards = policy.job.env, 0, 0.0
    tells_return = TRUE_RETURN in spec.episode_metrics
    try:
        observation, info = env.reset(seed=reset_seed(seed, EVALUATION_LANE, episode))
        policy.reset()
        if film is not None:
            film.shoot()
        while steps < spec.max_episode_steps:
            observation, reward, terminated, truncated, info = env.step(policy.act(observation))
            steps += 1
            if film is not None:
                film.shoot()
            rewards += _finite(check_reward(reward))
            if terminated or truncated:
                if not tells_return or math.isfinite(read_metrics(info, (TRUE_RETURN,))[0]):
                    break
                # The end of a life, say, and not of the game: on to the next.
                observation, _ = env.reset(seed=reset_seed(seed, EVALUATION_LANE, episode))
                policy.reset()
        (told,) = read_metrics(info, (TRUE_RETURN,)) if tells_return else (rewards,)
        return (told if math.isfinite(told) else rewards), steps, info
    except CONTAINED as error:
        refused = isinstance(error, RefusedObservation | RefusedValue)
        if is_users_interrupt(error) or (isinstance(error, WhorlError) and not refused):
            raise
        reason = str(error) if refused else last_line(error)
        raise EnvironmentFault(
            f"{policy.job.env.env_id}: {reason} (env step {steps} of evaluation episode {episode})"
        ) from error


def _finite(reward: float) -> float:
    if not math.isfinite(reward):
        raise refuse("reward", "one finite number", str(reward))
    return reward
