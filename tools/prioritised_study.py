"""Prioritised replay against uniform, where the only reward is far away and rare.

    python tools/prioritised_study.py dqn|ddpg [--seeds 10] [-o docs/images/prioritised-dqn.png]

Behaviour is random throughout, and learning starts when the replay is filled: both sides have the same rows and differ
in nothing but what they draw of them. Gradient steps are counted until a run has learnt. Prints a table.

dqn    a walk along a cliff (the blind cliff walk of Schaul et al. 2016). Learnt: the root mean squared error of the
       action values, which are known, is below 0.1. (Whether the greedy action is right says little here: before any
       reward is found, noise is enough to prefer going on to falling.)
ddpg   a line with a reward at its far end. Learnt: the policy arrives there without noise, and the critic knows it: it
       expects at the start at least half of the discounted return that the policy then gets. (Arriving alone says
       little here, too: a critic that knows nothing may happen to send the policy in the right direction.)
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import whorl
from whorl.envs.registry import make_env
from whorl.models.acting import acting_forward
from whorl.models.towers import Tower
from whorl.runs.checkpoint import load_latest

DISCOUNT = 0.95
PLACES = 12
DISTANCE = 9
UPDATES_BETWEEN_LOOKS = 2

Curve = tuple[list[int], list[float]]
"""Gradient steps, and what was measured after them."""


@dataclass(frozen=True)
class Study:
    """One agent on its task."""

    agent: str
    env: str
    settings: dict[str, Any]
    filled: int
    """Env steps in the replay when learning starts."""
    env_steps: int
    """Of the longest run, which end the annealing of beta."""
    gradient_steps: int
    """A run that has not learnt after these ends, and counts as if it had."""
    measure: Callable[[whorl.Trainer], float]
    learnt: Callable[[float], bool]
    first_seed: int
    title: str
    axis: str
    legend: str


def learn(study: Study, prioritised: bool, seed: int) -> Curve:
    """Train until it has learnt, or to the limit."""
    settings = COMMON | study.settings | {"agent.replay.prioritised": prioritised}
    settings |= {"agent.learning_starts": study.filled}
    each = UPDATES_BETWEEN_LOOKS * settings["agent.gradient_steps"]
    with tempfile.TemporaryDirectory() as folder:
        run_dir = Path(folder) / "run"
        options = {"steps": study.env_steps, "seed": seed, "engine": "inline", "envs_per_actor": 8, "run_dir": run_dir}
        with whorl.Trainer(study.agent, study.env, **options, set=settings) as trainer:
            while trainer.env_steps < study.filled:
                trainer.step()
            taken, measured = [0], [study.measure(trainer)]
            while taken[-1] < study.gradient_steps and not study.learnt(measured[-1]):
                trainer.step(UPDATES_BETWEEN_LOOKS)
                taken.append(taken[-1] + each)
                measured.append(study.measure(trainer))
    return taken, measured


def value_error(trainer: whorl.Trainer) -> float:
    """DQN on the cliff: root mean squared error of the action values of every place."""
    policy, places = trainer.policy(), np.arange(PLACES - 1)
    forward = acting_forward(policy.acting.network, len(places))
    values = forward(policy.weights, {"obs": places}, {}, np.ones(len(places), np.bool_)).outputs
    true = np.zeros_like(values)
    true[places, 1 - places % 2] = DISCOUNT ** (PLACES - 2.0 - places)
    return float(np.sqrt(np.mean((values - true) ** 2)))


def known_return(trainer: whorl.Trainer) -> float:
    """DDPG on the line: the critic's value of the start over the discounted return of the policy; 0 if that is 0."""
    policy, env = trainer.policy(), make_env("whorl/Reach-v0", {"n": DISTANCE})
    observation, _ = env.reset(seed=0)
    policy.reset()
    start = np.concatenate([observation, policy.act(observation)])
    returned, weight, over = 0.0, 1.0, False
    while not over:
        observation, reward, terminated, truncated, _ = env.step(policy.act(observation))
        returned, weight, over = returned + weight * float(reward), weight * DISCOUNT, terminated or truncated
    if returned == 0:
        return 0.0
    trainer.save()
    checkpoint = load_latest(trainer.path / "checkpoints")
    assert checkpoint is not None
    prefix = "agent/weights/"
    tensors = {
        name.removeprefix(prefix): torch.from_numpy(array.copy())
        for name, array in checkpoint.arrays["learner"].items()
        if name.startswith(prefix)
    }
    critic = Tower(policy.acting.network.config, tensors, "critic/0")
    return float(critic.forward(torch.from_numpy(start[None]))) / returned


COMMON: dict[str, Any] = {
    "agent.batch_size": 32,
    "agent.discount": DISCOUNT,
    "agent.replay.capacity": 50_000,
    "run.checkpoint_every_s": 1e6,
}

STUDIES = {
    "dqn": Study(
        agent="dqn",
        env="whorl/Cliff-v0",
        settings={
            "env.kwargs.n": PLACES,
            "agent.rows": 2,
            "agent.gradient_steps": 8,
            "agent.learning_rate": 3e-4,
            "agent.target_every": 1,
            "agent.target_tau": 0.1,
            "agent.epsilon_start": 1.0,
            "agent.epsilon_end": 1.0,
            "agent.network.hidden": (32,),
        },
        filled=12_000,
        env_steps=60_000,
        gradient_steps=20_000,
        measure=value_error,
        learnt=lambda error: error < 0.1,
        first_seed=1,
        title=f"DQN on a cliff walk of {PLACES} places",
        axis="error of the action values",
        legend="upper right",
    ),
    "ddpg": Study(
        agent="ddpg",
        env="whorl/Reach-v0",
        settings={
            "env.kwargs.n": DISTANCE,
            "agent.rows": 4,
            "agent.gradient_steps": 64,
            "agent.policy_learning_rate": 1e-4,
            "agent.critic_learning_rate": 3e-4,
            "agent.tau": 0.05,
            "agent.random_env_steps": 100_000,
            "agent.network.hidden": (64, 64),
            "agent.replay.alpha": 0.8,
        },
        filled=20_000,
        env_steps=100_000,
        gradient_steps=5_000,
        measure=known_return,
        learnt=lambda share: share >= 0.5,
        first_seed=11,
        title="DDPG on a line with one reward at its end",
        axis="critic's value of the start / return",
        legend="lower right",
    ),
}


def draw(study: Study, curves: dict[str, list[Curve]], out: Path) -> None:
    """Mean and deviation over the seeds."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 4.2), dpi=150, layout="constrained")
    axes = figure.subplots()
    grid = np.linspace(0, max(taken[-1] for runs in curves.values() for taken, _ in runs), 400)
    for (name, runs), colour in zip(curves.items(), ("#5d6d7e", "#2266cc"), strict=True):
        heights = np.stack([np.interp(grid, taken, measured) for taken, measured in runs])  # one that ended stays there
        mean, deviation = heights.mean(0), heights.std(0)
        axes.fill_between(grid, mean - deviation, mean + deviation, color=colour, alpha=0.18, linewidth=0)
        axes.plot(grid, mean, color=colour, linewidth=2.0, label=f"{name}, mean of {len(runs)} seeds")
    axes.set_title(study.title, fontsize=13, fontweight="bold", loc="left")
    axes.set_xlabel("gradient steps")
    axes.set_ylabel(study.axis)
    axes.grid(True, color="#dddddd", linewidth=0.7)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc=study.legend)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out)


def compare(study: Study, seeds: int) -> dict[str, list[Curve]]:
    """Both sides for each seed; prints a line for each, with the gradient steps that it took."""
    curves: dict[str, list[Curve]] = {"uniform": [], "prioritised": []}
    print("| seed | uniform | prioritised | uniform / prioritised |\n|---|---|---|---|")
    for seed in range(study.first_seed, study.first_seed + seeds):
        for name, runs in curves.items():
            runs.append(learn(study, name == "prioritised", seed))
        uniform, prioritised = (shown(study, runs[-1]) for runs in curves.values())
        ratio = curves["uniform"][-1][0][-1] / curves["prioritised"][-1][0][-1]
        print(f"| {seed} | {uniform} | {prioritised} | {ratio:.2f} |", flush=True)
    medians = {name: float(np.median([taken[-1] for taken, _ in runs])) for name, runs in curves.items()}
    ratio = medians["uniform"] / medians["prioritised"]
    print(f"| median | {medians['uniform']:,.0f} | {medians['prioritised']:,.0f} | {ratio:.2f} |")
    return curves


def shown(study: Study, curve: Curve) -> str:
    """The gradient steps of a run, marked where it ended without having learnt."""
    taken, measured = curve
    return f"{taken[-1]:,}" if study.learnt(measured[-1]) else f"over {taken[-1]:,}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("agent", choices=STUDIES)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("-o", "--out", type=Path)
    options = parser.parse_args()
    study = STUDIES[options.agent]
    draw(study, compare(study, options.seeds), options.out or Path(f"docs/images/prioritised-{options.agent}.png"))


if __name__ == "__main__":
    main()
