"""Evaluation: whole episodes in fresh environments with a trained policy, on film where wished."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from whorl.envs.registry import make_env
from whorl.errors import BadInputError, EnvironmentFault, MissingExtraError
from whorl.ops.keys import reset_seed
from whorl.policy import TrainedPolicy

EVALUATION_LANE = 2**40
"""Far from any training lane, so that no evaluation episode was ever trained on."""


@dataclass
class Evaluation:
    """Returns and lengths of the episodes played."""

    returns: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    video: Path | None = None

    def summary(self) -> dict[str, Any]:
        """Means and spreads."""
        return {
            "episodes": len(self.returns),
            "return_mean": float(np.mean(self.returns)),
            "return_std": float(np.std(self.returns)),
            "return_min": float(np.min(self.returns)),
            "return_max": float(np.max(self.returns)),
            "length_mean": float(np.mean(self.lengths)),
        }


def evaluate(
    policy: TrainedPolicy,
    episodes: int = 10,
    *,
    seed: int | None = None,
    sample: bool = False,
    video: Path | None = None,
) -> Evaluation:
    """Play ``episodes`` episodes; with ``video``, film the first one."""
    if episodes < 1:
        raise BadInputError(f"episodes: expected at least 1, got {episodes}")
    config = policy.job.config
    seed = config.run.seed if seed is None else seed
    kwargs = {**config.env.kwargs, **({"render_mode": "rgb_array"} if video else {})}
    env = make_env(config.env.id, kwargs)
    result = Evaluation(video=video)
    frames: list[Any] = []
    try:
        for episode in range(episodes):
            film = frames if video and episode == 0 else None
            rewards = list(_play(env, policy, reset_seed(seed, EVALUATION_LANE, episode), sample, film))
            result.returns.append(float(sum(rewards)))
            result.lengths.append(len(rewards))
    finally:
        env.close()
    if video is not None:
        _write_video(video, frames, env.metadata.get("render_fps") or 30)
    return result


def _play(env: Any, policy: TrainedPolicy, seed: int, sample: bool, film: list[Any] | None) -> Iterator[float]:
    limit = policy.job.env.max_episode_steps
    observation, _ = env.reset(seed=seed)
    policy.reset()
    if film is not None:
        film.append(_frame(env))
    for _ in range(limit):
        observation, reward, terminated, truncated, _ = env.step(policy.act(observation, sample))
        if film is not None:
            film.append(_frame(env))
        yield float(reward)
        if terminated or truncated:
            return


def _frame(env: Any) -> Any:
    frame = env.render()
    if not isinstance(frame, np.ndarray):
        raise EnvironmentFault(f"{env.spec.id if env.spec else env}: render() gave no picture; is rgb_array supported?")
    return frame


def _write_video(path: Path, frames: list[Any], fps: int) -> None:
    try:
        import imageio.v3 as imageio
    except ImportError:
        raise MissingExtraError("--video needs more packages: pip install 'whorl[video]'") from None
    height, width = (size - size % 2 for size in frames[0].shape[:2])  # the encoder takes even sizes only
    cropped = np.stack([frame[:height, :width] for frame in frames])
    imageio.imwrite(path, cropped, fps=fps, codec="libx264", macro_block_size=2)
