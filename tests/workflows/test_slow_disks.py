"""Whoever loads or saves for long is at work, and not lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import whorl
from whorl.trainer import resume_training

IMPATIENT: dict[str, Any] = {"engine.response_s": 0.5, "agent.network.hidden": (16,), "agent.rows": 8}
FLAGS: dict[str, Any] = {"engine": "local", "actors": 2, "envs_per_actor": 2}


def test_a_large_memory_may_take_long_to_load(tmp_path: Path) -> None:
    memory = {"agent.learning_starts": 100, "agent.batch_size": 16, "agent.replay.capacity": 1000}
    settings = {**IMPATIENT, **memory, "run.checkpoint_every_s": 1000.0}
    flags = {**FLAGS, "workflow": "slow_disks:REPLAY", "steps": 600}
    with whorl.Trainer("dqn", "CartPole-v1", run_dir=tmp_path / "run", set=settings, **flags) as trainer:
        trainer.step(2)
    assert resume_training(tmp_path / "run", console=False) == 0
    result = whorl.load(tmp_path / "run").result
    assert result.status == "completed"
    assert result.restarts["replay"] == 0


def test_a_learner_may_wait_long_for_its_last_checkpoint(tmp_path: Path) -> None:
    settings = {**IMPATIENT, "agent.epochs": 1, "agent.minibatches": 1, "run.checkpoint_every_s": 0.0}
    flags = {**FLAGS, "workflow": "slow_disks:SYNC", "steps": 200}
    run = whorl.train("ppo", "CartPole-v1", run_dir=tmp_path / "run", set=settings, **flags)
    assert run.status == "completed"
    assert run.result.restarts["learner"] == 0
    assert run.result.wall_s > 4
