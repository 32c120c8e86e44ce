"""A config.toml that was edited between two sessions: said, or refused; never taken for the same run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import whorl
from whorl.errors import CheckpointError, ConfigError


def _edited(run_dir: Path, old: str, new: str) -> Path:
    whorl.train("ppo", "CartPole-v1", steps=64, envs_per_actor=2, run_dir=run_dir, set={"agent.rows": 16})
    config = run_dir / "config.toml"
    assert old in config.read_text()
    config.write_text(config.read_text().replace(old, new))
    return run_dir


@pytest.mark.parametrize(
    ("old", "new", "exact"),
    [
        ("rows = 16", "rows = 8", False),
        ("keep_checkpoints = 3", "keep_checkpoints = 2", True),
        ("stop_before_s = 60.0", "stop_before_s = 30.0", True),
        ('autoreset = "auto"', 'autoreset = "disabled"', True),
    ],
)
def test_a_changed_setting_that_results_depend_on_ends_exactness(
    tmp_path: Path, old: str, new: str, exact: bool
) -> None:
    run_dir = _edited(tmp_path / "run", old, new)
    for steps in (96, 128):  # it stays so
        with whorl.Trainer.resume(run_dir, steps=steps) as trainer:
            trainer.step()
        assert whorl.load(run_dir).result.exact is exact


def test_another_number_of_environments_is_refused(tmp_path: Path) -> None:
    run_dir = _edited(tmp_path / "run", "envs_per_actor = 2", "envs_per_actor = 1")
    with pytest.raises(ConfigError, match="the run has 2 environments and cannot go on with 1"):
        whorl.Trainer.resume(run_dir, steps=100)


def test_a_run_whose_checkpoints_are_gone_is_not_begun_again(tmp_path: Path) -> None:
    run_dir = _edited(tmp_path / "run", "", "")
    metrics = (run_dir / "metrics.jsonl").read_bytes()
    shutil.rmtree(run_dir / "checkpoints")
    with pytest.raises(CheckpointError, match="tells of 3 updates, and its checkpoints are gone"):
        whorl.Trainer.resume(run_dir, steps=100)
    assert (run_dir / "metrics.jsonl").read_bytes() == metrics
    (run_dir / "result.json").unlink()  # as after a kill before the first checkpoint
    (run_dir / "checkpoints").mkdir()
    with whorl.Trainer.resume(run_dir, steps=100) as trainer:
        assert trainer.updates == 0
        trainer.step()
    assert len(list((run_dir / "checkpoints").iterdir())) == 1
