"""DDPG, TD3 and SAC learn continuous control with their presets. One seed here, three in `make verify`.

The goal is judged by playing 100 fresh episodes with the trained policy, without exploration: an episode of Pendulum-v1
is 200 steps, so that the last 100 episodes of training would begin before anything was learnt.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import whorl
from whorl.config.presets import list_presets
from whorl.envs.forms import BOOSTERS
from whorl.trainer import evaluate_run

EPISODES = 100

pytestmark = pytest.mark.timeout(900)  # alone on a core, the longest takes under a minute


class Goal(NamedTuple):
    """A mean return of the trained policy that a preset must reach within a number of environment steps (the last
    trajectories may go a little past the preset's own)."""

    agent: str
    env: str
    return_mean: float
    env_steps: int

    def __str__(self) -> str:
        return f"{self.agent}-{self.env}"


GOALS = (
    Goal("ddpg", "Pendulum-v1", -200, 20_000),
    Goal("td3", "Pendulum-v1", -200, 20_000),
    Goal("sac", "Pendulum-v1", -200, 20_000),
    Goal("td3", "MountainCarContinuous-v0", 90, 20_128),
)


def reaches(goal: Goal, seed: int, folder: Path, figure: Callable[[str, object], None]) -> None:
    run = whorl.train(goal.agent, goal.env, seed=seed, run_dir=folder / "run")
    evaluation = evaluate_run(run.path, episodes=EPISODES, seed=seed).summary()
    figure("return_mean", round(evaluation["return_mean"], 1))
    figure("env_steps", run.result.env_steps)
    figure("seconds", round(run.result.wall_s, 1))
    assert run.status == "completed"
    assert run.result.exact
    assert run.result.env_steps <= goal.env_steps
    assert evaluation["return_mean"] >= goal.return_mean


@pytest.mark.parametrize("goal", GOALS, ids=str)
def test_preset_reaches_its_goal(goal: Goal, tmp_path: Path, figure: Callable[[str, object], None]) -> None:
    reaches(goal, 1, tmp_path, figure)


@pytest.mark.verify
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("goal", GOALS, ids=str)
def test_preset_reaches_its_goal_for_each_seed(
    goal: Goal, seed: int, tmp_path: Path, figure: Callable[[str, object], None]
) -> None:
    reaches(goal, seed, tmp_path, figure)


def test_every_preset_of_these_agents_has_a_goal() -> None:
    agents = {goal.agent for goal in GOALS}
    presets = {(preset.agent, preset.env) for preset in list_presets() if preset.agent in agents}
    presets = {(agent, env) for agent, env in presets if env not in BOOSTERS}  # held to theirs in test_booster_learns
    assert presets == {(goal.agent, goal.env) for goal in GOALS}
