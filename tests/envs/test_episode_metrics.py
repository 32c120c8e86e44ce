"""What an environment tells of an episode that ended: from its ``info`` to the run's metrics, in all forms of lanes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

import whorl
from whorl.config.schema import EnvConfig
from whorl.envs import probe
from whorl.envs.episode_metrics import read_metrics
from whorl.errors import BadInputError
from whorl.trainer import resume_training

LIVES, STEPS_OF_A_LIFE = 3, 4
SMALL = {"agent.rows": 8, "agent.network.hidden": (8,)}
REPLAY = {**SMALL, "agent.learning_starts": 50, "agent.batch_size": 16, "agent.gradient_steps": 1}


class Game(gymnasium.Env[Any, Any]):
    """Three lives of four steps; each loss of a life ends an episode, and the score is that of the whole game. Rewards
    are 1 and the score counts 10 a step; ``luck`` is told at the end of a game only."""

    episode_metrics = ("episode_return", "luck", "lives")
    observation_space = Box(0.0, 100.0, (1,), np.float32)
    action_space = Discrete(2)

    def __init__(self) -> None:
        self.lives = self.score = self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        if not self.lives:
            self.lives, self.score = LIVES, 0
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> Any:
        self.steps += 1
        self.score += 10
        lost = self.steps == STEPS_OF_A_LIFE
        self.lives -= lost
        info = {"lives": self.lives, "luck": "none"}
        if lost and not self.lives:
            info |= {"episode_return": self.score, "luck": 7}
        return np.full(1, self.steps, np.float32), 1.0, lost, False, info


class Unreadable:
    def __float__(self) -> float:
        raise RuntimeError("a tensor with 2 elements is no number")


def test_what_is_no_number_is_nan() -> None:
    info = {"huge": 10**400, "text": "none", "odd": Unreadable(), "score": np.float32(7)}
    told = read_metrics(info, ("huge", "text", "odd", "missing", "score"))
    assert np.isnan(told[:4]).all()
    assert told[4] == 7


class Wrong(Game):
    episode_metrics = ("two words",)


def train(folder: Path, agent: str = "ppo", settings: Any = SMALL, env: str = f"{__name__}:Game", **flags: Any) -> Any:
    return whorl.train(agent, env, run_dir=folder / "run", set=settings, **{"steps": 400, **flags})


@pytest.mark.parametrize(
    ("agent", "flags"),
    [
        ("ppo", {"engine": "inline", "envs_per_actor": 2}),
        ("ppo", {"engine": "local", "actors": 2, "learners": 2, "envs_per_actor": 2}),
        ("ppo", {"engine": "local", "hosting": "process", "envs_per_actor": 2}),
        ("impala", {"engine": "local", "hosting": "process", "envs_per_actor": 2, "workflow": "async"}),
        ("dqn", {"engine": "local", "actors": 2, "envs_per_actor": 2, "workflow": "replay"}),
    ],
    ids=["inline", "learners", "processes", "apart", "replay"],
)
def test_scores_of_whole_games_are_what_counts(tmp_path: Path, agent: str, flags: dict[str, Any]) -> None:
    settings = dict(REPLAY if agent == "dqn" else SMALL)
    if hosting := flags.pop("hosting", None):
        settings["env.hosting"] = hosting
    run = train(tmp_path, agent, settings, **flags)
    result, metrics = run.result, run.metrics
    assert result.return_mean == 10 * LIVES * STEPS_OF_A_LIFE
    assert 0 < result.episodes <= result.env_steps // (LIVES * STEPS_OF_A_LIFE)
    assert metrics["luck_mean"][-1] == 7
    assert metrics["lives_mean"][-1] == 0
    assert "episode_return_mean" not in metrics


def test_a_vector_form_tells_the_same_as_single_environments(tmp_path: Path) -> None:
    flags = {"env": "whorl/Booster-v0", "steps": 1600, "envs_per_actor": 2, "engine": "local"}
    apart = {**SMALL, "env.hosting": "process"}
    found = [
        train(tmp_path / name, settings=settings, **flags).metrics["converged_mean"][-1]
        for name, settings in (("vector", SMALL), ("single", apart))
    ]
    assert 0 < found[0] < 1
    assert found[0] == found[1]


def test_names_that_cannot_be_used_are_refused() -> None:
    with pytest.raises(BadInputError, match="episode_metrics must be a tuple"):
        probe.plain_spec(EnvConfig(id=f"{__name__}:Wrong"), Wrong())


def test_they_outlive_a_resume(tmp_path: Path) -> None:
    with whorl.Trainer(
        "ppo", f"{__name__}:Game", run_dir=tmp_path / "run", set=SMALL, steps=400, envs_per_actor=2, engine="inline"
    ) as trainer:
        trainer.step(10)
        trainer.save()
        before = trainer.env_steps
    assert resume_training(tmp_path / "run", console=False) == 0
    metrics = whorl.load(tmp_path / "run").metrics
    first_after = int(np.searchsorted(metrics["env_steps"], before, side="right"))
    assert metrics["luck_mean"][first_after] == 7
