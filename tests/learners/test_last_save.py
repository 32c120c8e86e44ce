"""The last update is saved, whatever comes just before it."""

from __future__ import annotations

from pathlib import Path

import pytest

import whorl
from whorl.runs.checkpoint import BackgroundSaver, SaveRequest, load_latest
from whorl.session import FIRST_LEARNER

SMALL = {"agent.rows": 16, "agent.network.hidden": (8, 8), "agent.epochs": 1, "agent.minibatches": 1}


def test_a_stop_that_comes_when_the_last_update_has_been_agreed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {**SMALL, "run.checkpoint_every_s": 0.0}
    trainer = whorl.Trainer("ppo", "CartPole-v1", run_dir=tmp_path / "run", steps=300, engine="inline", set=settings)
    submit = BackgroundSaver.submit

    def submit_and_stop(self: BackgroundSaver, request: SaveRequest) -> bool:
        if request.update == 2:
            trainer._session.cluster.send(FIRST_LEARNER, "stop")
        return submit(self, request)

    monkeypatch.setattr(BackgroundSaver, "submit", submit_and_stop)
    with trainer:
        trainer.step(10**9)
        assert trainer.done
        assert trainer.updates == 3
    checkpoint = load_latest(trainer.path / "checkpoints")
    assert checkpoint is not None
    assert checkpoint.update == 3
