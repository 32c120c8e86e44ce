"""Actors and the processes of their environments are lost one without the other."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import whorl
from whorl.engines.contract import RoleId

HOSTED = {
    "agent.rows": 16,
    "agent.network.hidden": (8, 8),
    "agent.epochs": 1,
    "agent.minibatches": 1,
    "env.hosting": "process",
    "engine.patience_s": 15.0,
}


def trainer(run_dir: Path) -> whorl.Trainer:
    return whorl.Trainer("ppo", "CartPole-v1", run_dir=run_dir, steps=64, engine="local", envs_per_actor=2, set=HOSTED)


def test_the_environments_outlive_an_actor_that_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHORL_FAULT", "actor:0:env_step=20:raise")
    with trainer(tmp_path / "run") as run:
        run.step(10**9)
        assert run.done
        assert run._session.cluster.restarts == {"learner": 0, "actor": 1, "env": 0}


def test_an_environment_may_be_lost_before_its_actor_has_begun(tmp_path: Path) -> None:
    with trainer(tmp_path / "run") as run:
        os.kill(run._session.cluster.pids[RoleId("env", 1)], signal.SIGKILL)  # type: ignore[attr-defined]
        run.step(10**9)
        assert run.done
        assert run._session.cluster.restarts == {"learner": 0, "actor": 0, "env": 1}
