"""Prioritised replay against uniform: DDPG on a line whose only reward is at its far end.

    python tools/prioritised_ddpg.py [--seeds 10] [-o docs/images/prioritised-ddpg.png]

Actions are random throughout, so that both sides see the same rows and differ in nothing but what they draw of them.
Few rows have a reward, and there are 8 draws for each new row. Every 256 environment steps the trained policy plays an
episode without noise; a run ends when it has arrived at the end of the line three times in a row, or after 20,000
steps. Prints a table. The settings were chosen while looking at other seeds.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import whorl
from whorl.envs.registry import make_env

DISTANCE = 7
ENV_STEPS = 20_000
LANES = 8
FIRST_SEED = 41
UPDATES_BETWEEN_LOOKS = 4
LOOKS_IN_A_ROW = 3
SETTINGS: dict[str, Any] = {
    "env.kwargs.n": DISTANCE,
    "agent.rows": 8,
    "agent.gradient_steps": 16,
    "agent.batch_size": 32,
    "agent.policy_learning_rate": 3e-4,
    "agent.critic_learning_rate": 1e-3,
    "agent.discount": 0.95,
    "agent.tau": 0.02,
    "agent.learning_starts": 4000,
    "agent.random_env_steps": ENV_STEPS,
    "agent.network.hidden": (32, 32),
    "agent.replay.capacity": 50_000,
    "run.checkpoint_every_s": 1e6,
}

Curve = tuple[list[int], list[float]]


def learn(prioritised: bool, seed: int) -> Curve:
    """Environment steps, and the share of the line that the policy then covers."""
    settings = {**SETTINGS, "agent.replay.prioritised": prioritised}
    at, share = [0], [0.0]
    with tempfile.TemporaryDirectory() as folder:
        run_dir = Path(folder) / "run"
        options = {"steps": ENV_STEPS, "seed": seed, "engine": "inline", "envs_per_actor": LANES, "run_dir": run_dir}
        with whorl.Trainer("ddpg", "whorl/Reach-v0", **options, set=settings) as trainer:
            while not trainer.done and share[-LOOKS_IN_A_ROW:] != [1.0] * LOOKS_IN_A_ROW:
                trainer.step(UPDATES_BETWEEN_LOOKS)
                at.append(trainer.env_steps)
                share.append(way_covered(trainer.policy()))
    return at, share


def way_covered(policy: Any) -> float:
    """The share of the line that the policy covers without noise, before an episode would be truncated."""
    env, farthest, over = make_env("whorl/Reach-v0", {"n": DISTANCE}), 0.0, False
    observation, _ = env.reset(seed=0)
    policy.reset()
    while not over:
        observation, _, terminated, truncated, _ = env.step(policy.act(observation))
        farthest, over = max(farthest, float(observation[0])), terminated or truncated
    return farthest


def draw(curves: dict[str, list[Curve]], out: Path) -> None:
    """Mean and deviation over the seeds."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 4.2), dpi=150, layout="constrained")
    axes = figure.subplots()
    grid = np.linspace(0, max(at[-1] for runs in curves.values() for at, _ in runs), 400)
    for (name, runs), colour in zip(curves.items(), ("#5d6d7e", "#2266cc"), strict=True):
        heights = np.stack([np.interp(grid, at, share) for at, share in runs])  # a run that ended stays at its end
        mean, deviation = heights.mean(0), heights.std(0)
        low, high = np.maximum(mean - deviation, 0), np.minimum(mean + deviation, 1)
        axes.fill_between(grid, low, high, color=colour, alpha=0.18, linewidth=0)
        axes.plot(grid, mean, color=colour, linewidth=2.0, label=f"{name}, mean of {len(runs)} seeds")
    axes.set_title("DDPG on a line with one reward at its end", fontsize=13, fontweight="bold", loc="left")
    axes.set_xlabel("environment steps")
    axes.set_ylabel("share of the line that the policy covers")
    axes.grid(True, color="#dddddd", linewidth=0.7)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right")
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out)


def compare(seeds: int) -> dict[str, list[Curve]]:
    """Both sides for each seed; prints a line for each, with the environment steps that it took."""
    curves: dict[str, list[Curve]] = {"uniform": [], "prioritised": []}
    print("| seed | uniform | prioritised | uniform / prioritised |\n|---|---|---|---|")
    for seed in range(FIRST_SEED, FIRST_SEED + seeds):
        for name, runs in curves.items():
            runs.append(learn(name == "prioritised", seed))
        uniform, prioritised = (runs[-1][0][-1] for runs in curves.values())
        print(f"| {seed} | {uniform:,} | {prioritised:,} | {uniform / prioritised:.2f} |", flush=True)
    uniform, prioritised = (np.median([at[-1] for at, _ in runs]) for runs in curves.values())
    print(f"| median | {uniform:,.0f} | {prioritised:,.0f} | {uniform / prioritised:.2f} |")
    return curves


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("-o", "--out", type=Path, default=Path("docs/images/prioritised-ddpg.png"))
    options = parser.parse_args()
    draw(compare(options.seeds), options.out)


if __name__ == "__main__":
    main()
