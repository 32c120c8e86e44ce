"""DQN's presets reach their goals within their own number of environment steps. One seed here, three in `make verify`.

A run is exact, so that a seed that reached its goal once always does.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import whorl

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
    reaches(env, 1, tmp_path, figure)


@pytest.mark.verify
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("env", GOALS, ids=lambda env: env.replace("/", "-"))
def test_the_preset_reaches_its_goal_for_each_seed(
    env: str, seed: int, tmp_path: Path, figure: Callable[[str, object], None]
) -> None:
    reaches(env, seed, tmp_path, figure)
