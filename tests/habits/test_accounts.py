"""The account that other tests ask for can fail."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import whorl
from accounts import check_account, check_transitions, most_in_flight
from whorl.config.schema import Config
from whorl.resolve import config_from_keywords
from whorl.runs.result import Transitions


def config_of(workflow: str, **more: Any) -> Config:
    given = {"workflow": workflow, "engine": "local", "actors": 2, "envs_per_actor": 2, "agent.rows": 16, **more}
    return config_from_keywords("impala", "CartPole-v1", {"workflow.trajectories_per_update": 0, **given})


def test_what_can_be_in_flight_follows_from_the_plan() -> None:
    """Trajectories of 2 environments and 16 rows: in slots twice, one per actor that is begun, two batches of two."""
    assert most_in_flight(config_of("sync")) == (2 * 2 * 2 + 2 + 2 * 2) * 2 * 16
    assert most_in_flight(config_of("async")) == (2 * 2 * 3 + 2 + 2 * 2) * 2 * 16
    assert most_in_flight(config_of("async", engine="mpi")) == 2 * most_in_flight(config_of("async"))
    assert most_in_flight(config_of("window")) == math.inf


def test_steps_that_nobody_counts_or_that_count_twice_are_found(tmp_path: Path) -> None:
    run = whorl.train("ppo", "CartPole-v1", steps=300, run_dir=tmp_path / "run", set={"agent.rows": 16})
    assert check_account(run.path).used == run.result.env_steps
    for wrong in (
        Transitions(collected=100, used=101, in_flight=-1),
        Transitions(collected=100_000, used=300, in_flight=99_700),
        Transitions(collected=100, used=110, lost=-10),
    ):
        with pytest.raises(AssertionError):
            check_transitions(wrong, run.path)
