"""``seed``: actors without a model ask one server, and lose nothing when it dies."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

import whorl
from whorl.engines.contract import RoleId
from whorl.runs.result import Result
from whorl.trainer import resume_training

SMALL = {"agent.network.hidden": (16,), "run.checkpoint_every_s": 0.0}
ON_POLICY = {**SMALL, "agent.rows": 16}
REPLAY = {**SMALL, "agent.rows": 8, "agent.learning_starts": 200, "agent.batch_size": 32, "agent.gradient_steps": 2}
LSTM = {"agent.network.core": "lstm", "agent.network.lstm_size": 8}
KEYWORDS: dict[str, Any] = {"workflow": "seed", "engine": "local", "actors": 2, "envs_per_actor": 2, "steps": 1500}


def checked(result: Result) -> Result:
    assert result.status == "completed"
    assert not result.exact
    assert result.transitions.balanced
    assert result.transitions.in_flight >= 0
    assert result.transitions.used + result.transitions.dropped == result.env_steps >= 1500
    return result


@pytest.mark.parametrize(
    ("agent", "env", "settings", "engine"),
    [
        ("impala", "CartPole-v1", ON_POLICY, "local"),
        ("impala", "CartPole-v1", {**ON_POLICY, **LSTM}, "inline"),
        ("ppo", "Pendulum-v1", {**ON_POLICY, "agent.vtrace": True, "agent.epochs": 2}, "inline"),
        ("dqn", "CartPole-v1", {**REPLAY, **LSTM, "agent.burn_in": 2}, "local"),
        ("ddpg", "Pendulum-v1", REPLAY, "inline"),
        ("sac", "Pendulum-v1", REPLAY, "local"),
    ],
)
def test_agents_act_through_the_server(
    tmp_path: Path, agent: str, env: str, settings: dict[str, Any], engine: str
) -> None:
    keywords = {**KEYWORDS, "engine": engine}
    result = checked(whorl.train(agent, env, run_dir=tmp_path / "run", set=settings, **keywords).result)
    assert result.episodes > 0
    assert result.transitions.lost == 0
    assert result.time_share["inference"]["inference"] > 0


def test_rows_of_one_trajectory_may_be_of_several_versions(tmp_path: Path) -> None:
    """One trajectory an update, of four actors: weights change in the middle of the others' trajectories."""
    settings = {**ON_POLICY, "workflow.trajectories_per_update": 1}
    keywords = {**KEYWORDS, "actors": 4, "steps": 3000}
    result = checked(whorl.train("impala", "CartPole-v1", run_dir=tmp_path / "run", set=settings, **keywords).result)
    assert result.staleness.mean is not None
    assert 0 < result.staleness.mean < result.staleness.max


def test_whoever_dies_is_replaced_and_nothing_stalls(tmp_path: Path) -> None:
    """The server three times (once while an actor dies as well), an actor, the learner."""
    settings = {**ON_POLICY, "agent.rows": 64}
    keywords = {**KEYWORDS, "steps": 6000}
    with whorl.Trainer("impala", "CartPole-v1", run_dir=tmp_path / "run", set=settings, **keywords) as trainer:
        for roles in ([("inference", 0)], [("inference", 0), ("actor", 1)], [("learner", 0)], [("inference", 0)]):
            trainer.step(4)
            pids = trainer._session.cluster.pids
            for role in roles:
                os.kill(pids[RoleId(*role)], signal.SIGKILL)
        while not trainer.done:
            trainer.step(5)
    result = checked(whorl.load(tmp_path / "run").result)
    assert result.restarts["inference"] >= 3
    assert result.restarts["actor"] >= 1
    assert result.restarts["learner"] == 1
    assert result.transitions.lost > 0


def test_a_stopped_run_goes_on(tmp_path: Path) -> None:
    with whorl.Trainer("dqn", "CartPole-v1", run_dir=tmp_path / "run", set=REPLAY, **KEYWORDS) as trainer:
        trainer.step(10)
    assert resume_training(tmp_path / "run", console=False) == 0
    checked(whorl.load(tmp_path / "run").result)


def test_actors_hold_no_model_and_import_no_torch(tmp_path: Path) -> None:
    """A network for images acts by torch: only the server has it."""
    settings = {"agent.rows": 4, "run.checkpoint_every_s": 1000.0}
    keywords = {**KEYWORDS, "steps": 60, "envs_per_actor": 1}
    with whorl.Trainer("impala", "whorl/Image-v0", run_dir=tmp_path / "run", set=settings, **keywords) as trainer:
        trainer.step(2)
        pids = trainer._session.cluster.pids
        mapped = {
            role: Path(f"/proc/{pids[RoleId(*role)]}/maps").read_text() for role in (("actor", 0), ("inference", 0))
        }
        assert "libtorch" not in mapped["actor", 0]
        assert "libtorch" in mapped["inference", 0]
