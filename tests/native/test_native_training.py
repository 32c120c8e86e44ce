"""Whorl trains on simulators in C++ and Fortran: to their known optimum, and through a restart to the same weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whorl
from remote.test_remote_training import keywords, outcome, train
from whorl.envs.registry import make_env
from whorl.runs.result import Result

from .conftest import Program

Start = Callable[..., Program]


def test_a_simulator_killed_and_restarted_amid_episodes_gives_the_same_weights(
    programs: Path, start: Start, folder: Path, tmp_path: Path
) -> None:
    address = f"ipc://{folder / 'g.sock'}"
    first = start(programs / "glider", address, 5)
    undisturbed = outcome(train(tmp_path / "undisturbed", address).result)
    with whorl.Trainer("ppo", address, **keywords(tmp_path / "disturbed")) as trainer:
        trainer.step(2)
        first.kill()
        start(programs / "glider", address, 5)
        trainer.step(10**9)
    assert outcome(Result.read(tmp_path / "disturbed" / "result.json")) == undisturbed


def train_alone(where: Path, address: str, **more: Any) -> whorl.Run:
    return whorl.train("ppo", address, seed=1, engine="inline", run_dir=where, **more)


def shortfalls(policy: Any, address: str, metric: str, episodes: int) -> list[float]:
    """By how much the greedy policy misses the best there is, for each episode."""
    env, found = make_env(address), []
    for seed in range(episodes):
        observation, _ = env.reset(seed=10_000 + seed)
        is_over = False
        while not is_over:
            action = np.asarray(policy.act(observation))
            observation, _, terminated, truncated, info = env.step(action)
            is_over = terminated or truncated
        found.append(info[metric])
    env.close()
    return found


@pytest.mark.verify
def test_ppo_steers_the_glider_of_the_cpp_example_in_the_fewest_steps(
    programs: Path, start: Start, folder: Path, tmp_path: Path, figure: Callable[[str, object], None]
) -> None:
    program = start(programs / "glider", f"ipc://{folder / 'g.sock'}", 17)
    settings = {"agent.learning_rate": 1e-3, "agent.entropy_coefficient": 0.03}
    run = train_alone(tmp_path / "run", program.address, steps=40_000, set=settings)
    figure("wall_s", run.result.wall_s)
    assert shortfalls(run.policy, program.address, "excess", 60) == [0.0] * 60


@pytest.mark.verify
def test_ppo_holds_the_tank_of_the_fortran_example_as_well_as_can_be(
    programs: Path, start: Start, folder: Path, tmp_path: Path, figure: Callable[[str, object], None]
) -> None:
    program = start(programs / "tank", f"ipc://{folder / 't.sock'}", 17)
    run = train_alone(tmp_path / "run", program.address, steps=60_000, set={"agent.learning_rate": 1e-3})
    regret = float(np.mean(shortfalls(run.policy, program.address, "regret", 60)))
    figure("wall_s", run.result.wall_s)
    figure("mean_regret", regret)
    assert regret < 0.3, "a valve that is always half open has 21.7"
