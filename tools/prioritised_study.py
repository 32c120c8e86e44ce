"""Prioritised replay against uniform: DQN on a cliff walk, a chain whose only reward is at its far end.

    python tools/prioritised_study.py [--seeds 10] [-o docs/images/prioritised-dqn.png]

Behaviour is random throughout (epsilon 1) and learning starts when the replay holds 12,000 env steps: both sides have
the same rows and differ in nothing but what they draw of them. This is the blind cliff walk of Schaul et al. (2016).

Every few updates the learnt action values are compared with the true ones, which are known; a run ends when their root
mean squared error is below 0.1, and its gradient steps are counted. (Whether the greedy action is right says little
here: before any reward is found, noise is enough to prefer going on to falling.) Prints a table.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import whorl
from whorl.models.acting import acting_forward

PLACES = 12
ENV_STEPS = 60_000
GOAL_ERROR = 0.1
DISCOUNT = 0.95
FILLED_ENV_STEPS = 12_000
GRADIENT_STEPS = 8
UPDATES_BETWEEN_LOOKS = 2
SETTINGS: dict[str, Any] = {
    "env.kwargs.n": PLACES,
    "agent.rows": 2,
    "agent.gradient_steps": GRADIENT_STEPS,
    "agent.batch_size": 32,
    "agent.learning_rate": 3e-4,
    "agent.discount": DISCOUNT,
    "agent.target_every": 1,
    "agent.target_tau": 0.1,
    "agent.learning_starts": FILLED_ENV_STEPS,
    "agent.epsilon_start": 1.0,
    "agent.epsilon_end": 1.0,
    "agent.network.hidden": (32,),
    "agent.replay.capacity": 50_000,
    "run.checkpoint_every_s": 1e6,
}


def learn(prioritised: bool, seed: int) -> tuple[list[int], list[float]]:
    """Gradient steps, and the error of the action values after them."""
    settings = {**SETTINGS, "agent.replay.prioritised": prioritised}
    with tempfile.TemporaryDirectory() as folder:
        run_dir = Path(folder) / "run"
        options = {"steps": ENV_STEPS, "seed": seed, "engine": "inline", "envs_per_actor": 8, "run_dir": run_dir}
        with whorl.Trainer("dqn", "whorl/Cliff-v0", **options, set=settings) as trainer:
            while trainer.env_steps < FILLED_ENV_STEPS:
                trainer.step()
            taken, errors = [0], [value_error(trainer.policy())]
            while not trainer.done and errors[-1] >= GOAL_ERROR:
                trainer.step(UPDATES_BETWEEN_LOOKS)
                taken.append(taken[-1] + UPDATES_BETWEEN_LOOKS * GRADIENT_STEPS)
                errors.append(value_error(trainer.policy()))
    return taken, errors


def value_error(policy: Any) -> float:
    """Root mean squared error of the action values of every place."""
    places = np.arange(PLACES - 1)
    forward = acting_forward(policy.acting.network, len(places))
    values = forward(policy.weights, {"obs": places}, {}, np.ones(len(places), np.bool_)).outputs
    true = np.zeros_like(values)
    true[places, 1 - places % 2] = DISCOUNT ** (PLACES - 2.0 - places)
    return float(np.sqrt(np.mean((values - true) ** 2)))


def draw(curves: dict[str, list[tuple[list[int], list[float]]]], out: Path) -> None:
    """Mean and deviation over the seeds."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 4.2), dpi=150, layout="constrained")
    axes = figure.subplots()
    last = max(taken[-1] for runs in curves.values() for taken, _ in runs)
    grid = np.linspace(0, last, 400)
    for (name, runs), colour in zip(curves.items(), ("#5d6d7e", "#2266cc"), strict=True):
        heights = np.stack(
            [np.interp(grid, taken, errors) for taken, errors in runs]
        )  # a run that ended stays at its end
        mean, deviation = heights.mean(0), heights.std(0)
        axes.fill_between(grid, mean - deviation, mean + deviation, color=colour, alpha=0.18, linewidth=0)
        axes.plot(grid, mean, color=colour, linewidth=2.0, label=f"{name}, mean of {len(runs)} seeds")
    axes.set_title(f"DQN on a cliff walk of {PLACES} places", fontsize=13, fontweight="bold", loc="left")
    axes.set_xlabel("gradient steps")
    axes.set_ylabel("error of the action values")
    axes.grid(True, color="#dddddd", linewidth=0.7)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper right")
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("-o", "--out", type=Path, default=Path("docs/images/prioritised-dqn.png"))
    options = parser.parse_args()
    curves: dict[str, list[tuple[list[int], list[float]]]] = {"uniform": [], "prioritised": []}
    print("| seed | uniform | prioritised | uniform / prioritised |\n|---|---|---|---|")
    for seed in range(1, options.seeds + 1):
        for name, runs in curves.items():
            runs.append(learn(name == "prioritised", seed))
        uniform, prioritised = (runs[-1][0][-1] for runs in curves.values())
        print(f"| {seed} | {uniform:,} | {prioritised:,} | {uniform / prioritised:.2f} |", flush=True)
    medians = {name: float(np.median([taken[-1] for taken, _ in runs])) for name, runs in curves.items()}
    ratio = medians["uniform"] / medians["prioritised"]
    print(f"| median | {medians['uniform']:,.0f} | {medians['prioritised']:,.0f} | {ratio:.2f} |")
    draw(curves, options.out)


if __name__ == "__main__":
    main()
