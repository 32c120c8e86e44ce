"""Idle ranks of an environment compute what an agent says of whole trajectories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.parallel.conftest import Job

import whorl
from whorl.errors import ConfigError
from whorl.prepare import prepare
from whorl.resolve import config_from_keywords

SCORED = str(Path(__file__).with_name("scored.py"))
HEAT: dict[str, Any] = {
    "env.kwargs.cells": 16,
    "env.kwargs.episode_steps": 12,
    "agent.rows": 8,
    "agent.learning_starts": 16,
    "agent.replay.capacity": 1000,
    "agent.replay.prioritised": True,
    "workflow.postprocess": "ranks",
}


def test_shared_out_it_is_the_same_bit_for_bit(ranks: Job) -> None:
    """Five lanes on three ranks."""
    job = ranks(3, SCORED)
    assert job.returncode == 0, job.stderr
    assert json.loads(job.stdout) == {
        "dqn": [True, True, True, [7, 5], True],
        "lstm dqn": [True, True, True, [1, 5], True],
        "sac": [True, True, True, [7, 5], True],
    }


@pytest.mark.usefixtures("mpiexec")
def test_a_run_has_its_priorities_from_idle_ranks(tmp_path: Path) -> None:
    """Five ranks: learner, replay, and an actor with two mates."""
    given: dict[str, Any] = {"steps": 96, "actors": 1, "envs_per_actor": 3, "ranks_per_env": 3, "engine": "mpi"}
    run = whorl.train("sac", "whorl/Heat-v0", workflow="replay", set=HEAT, run_dir=str(tmp_path / "run"), **given)
    assert run.result.status == "completed"
    assert run.result.updates > 0


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"ranks_per_env": 1}, "no idle ranks: use --ranks-per-env 2"),
        ({"ranks_per_env": 2, "agent.replay.prioritised": False}, "use agent.replay.prioritised=true"),
        ({"ranks_per_env": 2, "workflow": "sync"}, "workflow.postprocess means nothing in sync"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(more: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        prepare(config_from_keywords("sac", "whorl/Heat-v0", {"engine": "mpi", "workflow": "replay", **HEAT, **more}))
