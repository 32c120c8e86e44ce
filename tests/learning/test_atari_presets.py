"""The Atari presets run: a short while here, 20,000 env steps of five games in `make verify`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import whorl

AGENTS = ("ppo", "a2c", "dqn", "impala", "apex")
GAMES = ("Pong", "Breakout", "BeamRider", "Qbert", "SpaceInvaders")
QUICK: dict[str, Any] = {"env.kwargs.size": 36, "env.kwargs.max_frames": 240, "agent.network.image_features": 16}
LESS: dict[str, dict[str, Any]] = {
    "ppo": {"agent.rows": 16, "agent.epochs": 1, "resources.envs_per_actor": 2},
    "a2c": {"resources.envs_per_actor": 2},
    "dqn": {"agent.learning_starts": 100, "agent.replay.capacity": 500, "resources.envs_per_actor": 2},
    "impala": {"agent.rows": 10, "resources.envs_per_actor": 2},
    "apex": {
        "agent.learning_starts": 100,
        "agent.batch_size": 32,
        "agent.gradient_steps": 1,
        "agent.replay.capacity": 500,
        "resources.envs_per_actor": 2,
    },
}


@pytest.mark.parametrize("agent", AGENTS)
def test_each_preset_runs(agent: str, tmp_path: Path) -> None:
    run = whorl.train(agent, "atari/Breakout-v0", steps=240, run_dir=tmp_path / "run", set={**QUICK, **LESS[agent]})
    assert "episodic_life = true" in (run.path / "config.toml").read_text()
    check(run)


@pytest.mark.verify
@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize("agent", AGENTS)
def test_each_preset_runs_for_a_while_on_each_game(agent: str, game: str, tmp_path: Path) -> None:
    sooner = {"agent.learning_starts": 10_000} if agent in ("dqn", "apex") else {}
    run = whorl.train(agent, f"atari/{game}-v0", steps=20_000, run_dir=tmp_path / "run", set=sooner)
    assert run.result.episodes > 0
    assert math.isfinite(run.result.return_mean)
    check(run)


def check(run: Any) -> None:
    result = run.result
    assert result.status == "completed"
    assert result.updates > 0
    assert result.transitions.balanced
