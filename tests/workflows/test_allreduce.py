"""``allreduce``: learners that act as well compute what ``sync`` computes, with nothing handed over."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

import whorl
from accounts import check_account
from whorl.engines.contract import RoleId
from whorl.errors import ConfigError
from whorl.runs.result import Result
from whorl.trainer import resume_training

SMALL = {"agent.rows": 16, "agent.network.hidden": (16,), "run.checkpoint_every_s": 0.0}
PPO = {**SMALL, "agent.epochs": 2, "agent.minibatches": 2}
KEYWORDS: dict[str, Any] = {
    "workflow": "allreduce",
    "engine": "local",
    "learners": 2,
    "envs_per_actor": 4,
    "steps": 1500,
}
DQN = {**SMALL, "agent.learning_starts": 200, "agent.batch_size": 32, "agent.gradient_steps": 2}


def train(folder: Path, agent: str = "ppo", env: str = "CartPole-v1", *, settings: Any = None, **flags: Any) -> Result:
    run = whorl.train(agent, env, run_dir=folder, set=settings or PPO, **{**KEYWORDS, "engine": "", **flags})
    result = run.result
    assert run.status == "completed"
    assert result.exact
    check_account(folder)
    assert result.transitions.used == result.env_steps
    return result


@pytest.mark.parametrize(("agent", "settings"), [("ppo", PPO), ("dqn", DQN), ("a2c", SMALL)])
def test_it_computes_what_sync_computes(tmp_path: Path, agent: str, settings: dict[str, Any]) -> None:
    sync = train(tmp_path / "sync", agent, settings=settings, workflow="sync", actors=2)
    inline = train(tmp_path / "inline", agent, settings=settings, engine="inline")
    local = train(tmp_path / "local", agent, settings=settings, engine="local")
    assert inline.weights_sha256 == local.weights_sha256 == sync.weights_sha256
    assert inline.transitions.in_flight == local.transitions.in_flight == 0
    assert set(local.resources) == {"learner"}


def test_environments_in_processes_of_their_own_may_die(tmp_path: Path) -> None:
    undisturbed = train(tmp_path / "inside", env="Pendulum-v1")
    apart = {**PPO, "env.hosting": "process"}
    with whorl.Trainer("ppo", "Pendulum-v1", run_dir=tmp_path / "apart", set=apart, **KEYWORDS) as trainer:
        for lane in (1, 6):
            trainer.step(3)
            os.kill(trainer._session.cluster.pids[RoleId("env", lane)], signal.SIGKILL)
        while not trainer.done:
            trainer.step(1)
    result = whorl.load(tmp_path / "apart").result
    assert result.restarts["env"] == 2
    assert result.weights_sha256 == undisturbed.weights_sha256


def test_a_lost_learner_and_a_stop_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    undisturbed = train(tmp_path / "one", engine="local")
    monkeypatch.setenv("WHORL_FAULT", "learner:1:update=4:kill")
    killed = train(tmp_path / "two", engine="local")
    assert killed.restarts["learner"] >= 1
    assert killed.weights_sha256 == undisturbed.weights_sha256
    monkeypatch.delenv("WHORL_FAULT")
    with whorl.Trainer("ppo", "CartPole-v1", run_dir=tmp_path / "three", set=PPO, **KEYWORDS) as trainer:
        trainer.step(5)
        trainer.save()
    assert resume_training(tmp_path / "three", console=False, learners=1) == 0
    assert whorl.load(tmp_path / "three").result.weights_sha256 == undisturbed.weights_sha256


def test_ddppo_is_a_name_for_it(tmp_path: Path) -> None:
    run = whorl.train("ddppo", "CartPole-v1", run_dir=tmp_path / "run", learners=2, steps=300, set=PPO)
    result = run.result
    assert (result.agent, result.workflow) == ("ppo", "allreduce")


def test_more_actors_than_learners_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="use --learners 4 and leave --actors out"):
        train(tmp_path / "run", actors=4)
