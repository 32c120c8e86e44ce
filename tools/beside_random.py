"""Is a trained policy better than random play? Plays whole episodes of both, the same starts, and compares the returns.

    python tools/beside_random.py RUN_DIR [--episodes N] [--sample]

Prints both means and the one-sided p-value of Welch's test, for the hypothesis that the policy is no better.
``--sample`` draws from the policy instead of taking its best action.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from whorl.envs.episode_metrics import read_metrics
from whorl.envs.registry import make_env
from whorl.evaluate import EVALUATION_LANE
from whorl.ops.keys import reset_seed
from whorl.trainer import load_policy
from whorl.trajectory.episodes import TRUE_RETURN


def play(env: Any, act: Callable[[Any], Any], begin: Callable[[], None], episodes: int, most_steps: int) -> np.ndarray:
    """True returns of whole episodes: a game goes on after the loss of a life."""
    returns = []
    for episode in range(episodes):
        seed, total, steps, told = reset_seed(0, EVALUATION_LANE, episode), 0.0, 0, math.nan
        tells = TRUE_RETURN in getattr(env.unwrapped, "episode_metrics", ())
        over = False
        while not over:
            observation, _ = env.reset(seed=seed)
            begin()
            ended = False
            while not ended:
                observation, reward, terminated, truncated, info = env.step(act(observation))
                total, steps = total + float(reward), steps + 1
                ended = terminated or truncated or steps >= most_steps
            (told,) = read_metrics(info, (TRUE_RETURN,)) if tells else (total,)
            over = math.isfinite(told) or steps >= most_steps
        returns.append(told if math.isfinite(told) else total)
    return np.array(returns)


def p_value(better: np.ndarray, worse: np.ndarray) -> float:
    """Welch's test with the normal distribution, which is close enough from 30 episodes on."""
    error = math.sqrt(better.var(ddof=1) / len(better) + worse.var(ddof=1) / len(worse))
    return 0.5 * math.erfc((better.mean() - worse.mean()) / max(error, 1e-12) / math.sqrt(2))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--sample", action="store_true")
    parser.add_argument("--most-steps", type=int, default=100_000)
    arguments = parser.parse_args()
    policy = load_policy(arguments.run_dir)
    config = policy.job.config.env
    env = make_env(config.id, config.kwargs)
    rules: dict[str, tuple[Callable[[Any], Any], Callable[[], None]]] = {
        "trained": (lambda observation: policy.act(observation, sample=arguments.sample), policy.reset),
        "random": (lambda _: env.action_space.sample(), lambda: None),
    }
    env.action_space.seed(0)
    found = {}
    for name, (act, begin) in rules.items():
        found[name] = played = play(env, act, begin, arguments.episodes, arguments.most_steps)
        spread = f"standard deviation {played.std(ddof=1):.2f}, min {played.min():g}, max {played.max():g}"
        print(f"{name}: {len(played)} episodes, mean {played.mean():.2f}, {spread}", flush=True)
    print(f"p = {p_value(found['trained'], found['random']):.2g} (one-sided, Welch)")


if __name__ == "__main__":
    main()
