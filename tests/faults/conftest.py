"""Undisturbed runs to compare with, computed once, on the other engine; and a run stopped half-way."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.register_assert_rewrite("running")

from running import Trained, settings_of

import whorl
from whorl.runs.result import Result


@pytest.fixture(scope="session")
def references(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    """The result of the undisturbed small run, per workflow."""
    folder = tmp_path_factory.mktemp("references")
    return {
        workflow: whorl.train(
            "ppo", "CartPole-v1", run_dir=folder / workflow, workflow=workflow, **settings_of("inline")
        ).result
        for workflow in ("sync", "overlap")
    }


@pytest.fixture(scope="session")
def wrapped_reference(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The same of CartPole-v1 inside an environment that does nothing but pass on."""
    settings = settings_of("inline")
    settings["set"]["env.kwargs.step_time_s"] = 0.0
    run = whorl.train("ppo", "whorl/Slow-v0", run_dir=tmp_path_factory.mktemp("wrapped") / "run", **settings)
    return run.result.weights_sha256


@pytest.fixture(scope="session")
def stopped_at_six(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run stopped after update 6, with checkpoints of updates 4, 5 and 6. Not to be touched."""
    path = tmp_path_factory.mktemp("stopped") / "run"
    with whorl.Trainer("ppo", "CartPole-v1", run_dir=path, **settings_of("inline")) as trainer:
        trainer.step(6)
    return path


@pytest.fixture
def stopped(stopped_at_six: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(stopped_at_six, tmp_path / "run"))


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def same_as(references: dict[str, Result]) -> Trained:
    """Asserts that a run ended with the weights of the undisturbed one."""
    return Trained(references)
