"""A2C on data that is some updates old, with V-trace and without: what the correction is worth.

    python tools/staleness_study.py [--seeds 10] [-o docs/images/vtrace-staleness.png]

The workflow is ``async`` in one thread, so that a seed gives the same run each time; actors see every twelfth version
of the weights only, which makes the data 6 updates old on average and 13 at most. Both sides have the same settings.
Prints a table of the mean returns of the last 100 episodes, and draws the curves.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

import whorl

ENV_STEPS = 250_000
PUBLISH_EVERY = 12
SETTINGS = {
    "workflow.publish_every": PUBLISH_EVERY,
    "workflow.accept_stale": True,
    "agent.learning_rate": 0.003,
    "agent.rows": 20,
    "agent.gae_lambda": 1.0,
}
SIDES = {"with V-trace": True, "without": False}
SOLVED = 475.0


def learn(seed: int, corrected: bool) -> tuple[np.ndarray, np.ndarray, float]:
    """Environment steps, mean returns, and the mean return at the end."""
    with tempfile.TemporaryDirectory() as folder:
        run = whorl.train(
            "a2c",
            "CartPole-v1",
            workflow="async",
            engine="inline",
            steps=ENV_STEPS,
            seed=seed,
            run_dir=Path(folder) / "run",
            quiet=True,
            set={**SETTINGS, "agent.vtrace": corrected},
        )
        known = np.isfinite(run.metrics["return_mean"])
        assert run.result.return_mean is not None
        return run.metrics["env_steps"][known], run.metrics["return_mean"][known], run.result.return_mean


def draw(curves: dict[str, list[tuple[np.ndarray, np.ndarray, float]]], out: Path) -> None:
    """Every seed thin, the median thick."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 4.2), dpi=150, layout="constrained")
    axes = figure.subplots()
    grid = np.linspace(0, ENV_STEPS, 300)
    for (name, runs), colour in zip(curves.items(), ("#2266cc", "#cc4422"), strict=True):
        heights = np.stack([np.interp(grid, steps, returns) for steps, returns, _ in runs])
        axes.plot(grid, heights.T, color=colour, linewidth=0.6, alpha=0.35)
        label = f"{name}, median of {len(runs)} seeds"
        axes.plot(grid, np.median(heights, axis=0), color=colour, linewidth=2.2, label=label)
    axes.set_title("A2C on CartPole-v1, data 6 updates old on average", fontsize=13, fontweight="bold", loc="left")
    axes.set_xlabel("environment steps")
    axes.set_ylabel("mean return of 100 episodes")
    axes.grid(True, color="#dddddd", linewidth=0.7)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper left")
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("-o", "--out", type=Path, default=Path("docs/images/vtrace-staleness.png"))
    options = parser.parse_args()
    curves: dict[str, list[tuple[np.ndarray, np.ndarray, float]]] = {name: [] for name in SIDES}
    print("| seed | with V-trace | without |\n|---|---|---|")
    for seed in range(1, options.seeds + 1):
        for name, corrected in SIDES.items():
            curves[name].append(learn(seed, corrected))
        print(f"| {seed} | {' | '.join(f'{runs[-1][2]:.0f}' for runs in curves.values())} |", flush=True)
    finals = {name: [final for _, _, final in runs] for name, runs in curves.items()}
    print(f"| median | {' | '.join(f'{np.median(values):.0f}' for values in finals.values())} |")
    reached = [sum(value >= SOLVED for value in values) for values in finals.values()]
    print(f"| at {SOLVED:.0f} or more | {' | '.join(map(str, reached))} |")
    draw(curves, options.out)


if __name__ == "__main__":
    main()
