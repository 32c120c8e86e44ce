"""DQN's presets reach their goals within their own number of environment steps. One seed here, three in `make verify`.

A run is exact, so that a seed that reached its goal once always does.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import whorl
from whorl.studies.catalogue.priorities import FULL
from whorl.studies.priority_tasks import learn

GOALS = {"CartPole-v1": 475.0, "whorl/Recall-v0": 0.97}

pytestmark = pytest.mark.timeout(900)  # alone on a core each takes about half a minute


def reaches(env: str, seed: int, folder: Path, figure: Callable[[str, object], None]) -> None:
    run = whorl.train("dqn", env, seed=seed, stop_return=GOALS[env], run_dir=folder / "run")
    result = run.result
    figure("return_mean", result.return_mean)
    figure("env_steps", result.env_steps)
    figure("seconds", round(result.wall_s, 1))
    assert run.status == "completed"
    assert result.return_mean is not None
    assert result.return_mean >= GOALS[env], f"not reached in {result.env_steps:,} environment steps"
    assert result.exact
    assert result.episodes >= 100


@pytest.mark.parametrize("env", GOALS, ids=lambda env: env.replace("/", "-"))
def test_the_preset_reaches_its_goal(env: str, tmp_path: Path, figure: Callable[[str, object], None]) -> None:
    reaches(env, 3, tmp_path, figure)  # of the three, it gets there in the fewest environment steps


@pytest.mark.verify
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("env", GOALS, ids=lambda env: env.replace("/", "-"))
def test_the_preset_reaches_its_goal_for_each_seed(
    env: str, seed: int, tmp_path: Path, figure: Callable[[str, object], None]
) -> None:
    reaches(env, seed, tmp_path, figure)


def gradient_steps(seed: int, figure: Callable[[str, object], None]) -> tuple[int, int]:
    """Until the action values are right: with uniform and with prioritised draws."""
    runs = {name: learn("dqn", name == "prioritised", seed, **FULL["dqn"]) for name in ("uniform", "prioritised")}
    for name, curve in runs.items():
        figure(f"{name}_gradient_steps", curve.gradient_steps)
        assert curve.learnt, f"{name}: not right after {curve.gradient_steps} gradient steps"
    return runs["uniform"].gradient_steps, runs["prioritised"].gradient_steps


def test_prioritised_draws_learn_a_rare_reward_sooner(figure: Callable[[str, object], None]) -> None:
    uniform, prioritised = gradient_steps(1, figure)
    assert prioritised * 2 < uniform


@pytest.mark.verify
@pytest.mark.parametrize("seed", range(1, 11))
def test_prioritised_draws_learn_a_rare_reward_sooner_for_each_seed(
    seed: int, figure: Callable[[str, object], None]
) -> None:
    uniform, prioritised = gradient_steps(seed, figure)
    assert prioritised * 2 < uniform
