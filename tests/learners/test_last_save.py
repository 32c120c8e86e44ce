"""The last update is saved, whatever comes just before it."""

from __future__ import annotations

import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import whorl
from whorl.learners.learner import Learner
from whorl.runs.checkpoint import load_latest
from whorl.session import FIRST_LEARNER

SMALL = {"agent.rows": 16, "agent.network.hidden": (8, 8), "agent.epochs": 1, "agent.minibatches": 1}


def test_a_stop_that_comes_when_the_last_update_has_been_agreed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {**SMALL, "run.checkpoint_every_s": 0.0}
    trainer = whorl.Trainer(
        "ppo", "CartPole-v1", run_dir=tmp_path / "run", steps=300, envs_per_actor=8, engine="inline", set=settings
    )
    update = Learner.update

    def stop_and_update(self: Learner, *arguments: Any) -> Generator[Any, None, None]:
        if self.updates == 2:
            trainer._session.cluster.send(FIRST_LEARNER, "stop")
        yield from update(self, *arguments)

    monkeypatch.setattr(Learner, "update", stop_and_update)
    with trainer:
        trainer.step(10**9)
        assert trainer.done
        assert trainer.updates == 3
    checkpoint = load_latest(trainer.path / "checkpoints")
    assert checkpoint is not None
    assert checkpoint.update == 3


def test_a_save_does_not_wait_for_slow_trajectories(tmp_path: Path) -> None:
    slow = {**SMALL, "env.kwargs.step_time_s": 0.3, "env.hosting": "inside", "resources.shards": 2, "agent.rows": 40}
    with whorl.Trainer(
        "ppo",
        "whorl/Slow-v0",
        run_dir=tmp_path / "run",
        actors=2,
        envs_per_actor=1,
        learners=2,
        engine="local",
        set=slow,
    ) as trainer:
        trainer._session.allow(10)
        started = time.monotonic()
        path = trainer.save()
        assert time.monotonic() - started < 6  # a trajectory takes 12 s
    assert path.is_dir()
