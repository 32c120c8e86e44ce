"""PPO on CartPole-v1 beside Stable-Baselines3: environment steps per second, and seconds to a mean return of 475.

Both run alternately (peer, whorl, peer, whorl, ...), each in a fresh process with one torch thread:

- *speed*: the same settings on both sides, those rl-zoo3 tuned for the peer. Environment steps, learning included,
  between the first update after the warm-up and the end of the run, by the process's own clock.
- *solve*: each side with its own best settings. Seconds from the start of the process to its end; it ends itself when
  the mean return of the last 100 episodes reaches 475. Imports and everything else a user waits for are counted.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from whorl.bench.peers import peer_python
from whorl.bench.report import Measure, Report
from whorl.bench.sides import SB3, SB3_VERSION, add, steady_rate, timed, train_command

PEER_SCRIPT = Path(__file__).parent / "peer_scripts" / "sb3_ppo_cartpole.py"

WARM_UP_ENV_STEPS = 10_240
MEASURED_ENV_STEPS = 102_400
SOLVE_ENV_STEPS = 100_000
GOAL_RETURN = 475

TUNED = (
    "resources.envs_per_actor=8",
    "resources.learner_threads=1",
    "agent.rows=32",
    "agent.epochs=20",
    "agent.minibatches=1",
    "agent.gae_lambda=0.8",
    "agent.discount=0.98",
    "agent.entropy_coefficient=0.0",
    "agent.learning_rate=0.001",
    "agent.anneal=linear",
    "agent.adam_eps=1e-5",
    "agent.clip=0.2",
    "agent.anneal_clip=linear",
    "agent.value_coefficient=0.5",
    "agent.max_grad_norm=0.5",
    "agent.normalise_advantages=true",
    "agent.network.hidden=[64, 64]",
    "agent.network.activation=tanh",
)
"""rl-zoo3's settings for CartPole-v1 (and the peer's defaults) in our words: one minibatch of 8 x 32 rows, 20 times."""


def run(repeats: int, directory: Path) -> Report:
    """Alternate peer and Whorl; ``directory`` keeps the peer's environment."""
    python = peer_python(directory, "sb3", (f"{SB3}=={SB3_VERSION}",))
    speed = Measure(
        "speed, the same settings on both sides",
        "environment steps/s",
        "higher",
        f"{MEASURED_ENV_STEPS:,} environment steps with learning, after {WARM_UP_ENV_STEPS:,} of warm-up",
    )
    solve = Measure(
        f"time to a mean return of {GOAL_RETURN}, each with its own settings",
        "s",
        "lower",
        "a fresh process from its start to its end, imports included",
    )
    report = Report(
        f"PPO on CartPole-v1: whorl and {SB3} {SB3_VERSION}, {repeats} runs each, alternating",
        [speed, solve],
        reference=SB3,
    )
    with tempfile.TemporaryDirectory() as runs:
        for seed in range(1, repeats + 1):
            add(speed, SB3, seed, _peer_speed(python, seed))
            add(speed, "whorl", seed, _whorl_speed(Path(runs) / f"speed-{seed}", seed))
            add(solve, SB3, seed, _peer_solve(python, seed, report.notes))
            add(solve, "whorl", seed, _whorl_solve(Path(runs) / f"solve-{seed}", seed, report.notes))
    return report


def _peer_speed(python: Path, seed: int) -> float:
    output, _ = timed(
        [str(python), str(PEER_SCRIPT), "speed", *map(str, (WARM_UP_ENV_STEPS, MEASURED_ENV_STEPS, seed))]
    )
    return float(json.loads(output)["env_steps_per_s"])


def _peer_solve(python: Path, seed: int, notes: list[str]) -> float:
    output, wall_s = timed(_peer(python, "solve", SOLVE_ENV_STEPS, GOAL_RETURN, seed))
    _note_failure(SB3, seed, json.loads(output), notes)
    return wall_s


def _whorl_speed(run_dir: Path, seed: int) -> float:
    settings = [word for setting in TUNED for word in ("--set", setting)]
    timed(_train(run_dir, seed, "--steps", str(WARM_UP_ENV_STEPS + MEASURED_ENV_STEPS), *settings))
    return steady_rate(run_dir / "metrics.jsonl", WARM_UP_ENV_STEPS)


def _whorl_solve(run_dir: Path, seed: int, notes: list[str]) -> float:
    _, wall_s = timed(_train(run_dir, seed, "--stop-return", str(GOAL_RETURN)))
    _note_failure("whorl", seed, json.loads((run_dir / "result.json").read_text()), notes)
    return wall_s


def _peer(python: Path, what: str, *numbers: int) -> list[str]:
    return [str(python), str(PEER_SCRIPT), what, *map(str, numbers)]


def _train(run_dir: Path, seed: int, *options: str) -> list[str]:
    return train_command("ppo", "CartPole-v1", run_dir, seed, *options)


def _note_failure(name: str, seed: int, result: dict[str, Any], notes: list[str]) -> None:
    if result["return_mean"] < GOAL_RETURN:
        notes.append(
            f"{name}, seed {seed}: ended at {result['return_mean']:.0f} and not {GOAL_RETURN}; its time is too low"
        )
