"""Ranks on nodes other than the driver's, rehearsed on one machine: what the driver cannot see it has to ask for."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from tests.mpi.conftest import require

import whorl
from whorl.engines.mpi.nodes import RANKS_PER_NODE
from whorl.runs.result import Transitions

MPI = ["mpich", pytest.param("openmpi", marks=pytest.mark.verify)]
SMALL: dict[str, Any] = {"agent.rows": 16, "agent.epochs": 2, "agent.minibatches": 2, "agent.network.hidden": (16,)}


@pytest.mark.parametrize("mpi", MPI)
def test_what_ranks_elsewhere_have_collected_is_counted_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mpi: str
) -> None:
    require(mpi)

    def transitions(name: str) -> Transitions:
        settings = {**SMALL, "engine.mpi": mpi}
        run = whorl.train(
            "ppo",
            "CartPole-v1",
            engine="mpi",
            actors=2,
            envs_per_actor=2,
            steps=600,
            run_dir=tmp_path / name,
            set=settings,
        )
        return run.result.transitions

    here = transitions("here")
    monkeypatch.setenv(RANKS_PER_NODE, "1")
    elsewhere = transitions("elsewhere")
    assert elsewhere.used == here.used
    assert elsewhere.collected >= elsewhere.used
    assert elsewhere.in_flight >= 0


@pytest.mark.verify
def test_ranks_elsewhere_wait_for_a_loop_that_takes_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require("mpich")
    monkeypatch.setenv(RANKS_PER_NODE, "1")
    settings = {**SMALL, "engine.patience_s": 10.0}
    with whorl.Trainer(
        "ppo",
        "CartPole-v1",
        engine="mpi",
        actors=2,
        envs_per_actor=2,
        steps=600,
        run_dir=tmp_path / "run",
        set=settings,
    ) as trainer:
        trainer.step()
        time.sleep(13.0)
        trainer.step()
        assert trainer.transitions.in_flight >= 0
