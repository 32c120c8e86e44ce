"""``gradients``: what a parameter server does with actors' gradients is what a learner does with their trajectories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import whorl
from accounts import check_account
from whorl.errors import ConfigError
from whorl.runs.result import Result
from whorl.trainer import resume_training
from whorl.workflows import gradients

SMALL = {
    "agent.rows": 16,
    "agent.network.hidden": (16,),
    "agent.normalise_rewards": False,
    "run.checkpoint_every_s": 0.0,
}
LSTM = {**SMALL, "agent.network.core": "lstm", "agent.network.lstm_size": 8}
KEYWORDS: dict[str, Any] = {"workflow": "gradients", "actors": 2, "envs_per_actor": 2, "steps": 1500, "engine": "local"}


def train(folder: Path, agent: str = "a2c", env: str = "CartPole-v1", *, settings: Any = None, **flags: Any) -> Result:
    run = whorl.train(agent, env, run_dir=folder, set=settings or SMALL, **{**KEYWORDS, **flags})
    result = run.result
    assert run.status == "completed"
    assert not result.exact
    check_account(folder)
    assert result.transitions.used + result.transitions.dropped == result.env_steps >= 1500
    return result


@pytest.mark.parametrize("agent", ["a2c", "impala"])
def test_with_one_actor_it_computes_what_sync_computes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent: str
) -> None:
    """Where actor and learner take turns, every gradient is fresh."""
    monkeypatch.setattr(gradients, "SLOTS", 1)
    alone = {"actors": 1, "engine": "inline"}
    server = train(tmp_path / "gradients", agent, **alone)
    sync = whorl.train(
        agent, "CartPole-v1", run_dir=tmp_path / "sync", set=SMALL, **{**KEYWORDS, **alone, "workflow": "sync"}
    )
    assert server.staleness.max == 0
    assert server.weights_sha256 == sync.result.weights_sha256
    assert (server.updates, server.episodes) == (sync.result.updates, sync.result.episodes)


@pytest.mark.parametrize(("agent", "env", "settings"), [("a2c", "Pendulum-v1", SMALL), ("impala", "CartPole-v1", LSTM)])
def test_agents_run_in_processes(tmp_path: Path, agent: str, env: str, settings: dict[str, Any]) -> None:
    result = train(tmp_path / "run", agent, env, settings=settings)
    assert result.updates >= 1500 // (16 * 2)
    assert result.transitions.lost == result.transitions.dropped == 0


def test_a_staleness_bound_is_kept(tmp_path: Path) -> None:
    result = train(tmp_path / "run", actors=4, settings={**SMALL, "workflow.max_staleness": 1})
    assert result.staleness.max <= 1


def test_what_is_lost_is_replaced_and_a_stopped_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHORL_FAULT", "actor:1:env_step=100:kill,learner:0:update=35:kill")
    result = train(tmp_path / "killed")
    assert result.restarts["learner"] == 1
    assert result.restarts["actor"] >= 1
    monkeypatch.delenv("WHORL_FAULT")
    with whorl.Trainer("a2c", "CartPole-v1", run_dir=tmp_path / "run", set=SMALL, **KEYWORDS) as trainer:
        trainer.step(10)
    assert resume_training(tmp_path / "run", console=False) == 0
    check_account(tmp_path / "run")


def test_a3c_is_a_name_for_it(tmp_path: Path) -> None:
    result = whorl.train("a3c", "CartPole-v1", run_dir=tmp_path / "run", steps=200, engine="inline", set=SMALL).result
    assert (result.agent, result.workflow) == ("a2c", "gradients")


@pytest.mark.parametrize(
    ("agent", "settings", "flags", "says"),
    [
        ("ppo", {}, {}, r"use a2c \(the alias a3c does\) or impala"),
        ("dqn", {}, {}, "learns from a replay"),
        ("a2c", {"agent.normalise_rewards": True}, {}, "leave out agent.normalise_observations"),
        ("a2c", {}, {"learners": 2}, "gradients has one learner"),
        ("a2c", {"workflow.trajectories_per_update": 2}, {}, "one gradient at a time"),
    ],
)
def test_what_it_cannot_do_is_refused(
    tmp_path: Path, agent: str, settings: dict[str, Any], flags: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        whorl.train(agent, "CartPole-v1", run_dir=tmp_path / "run", set=settings, **{**KEYWORDS, **flags})
