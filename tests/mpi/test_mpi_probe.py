"""Where a get has to wait for its target, everything goes by messages, and the run says so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.mpi.conftest import require, result_of

SMALL = (
    *("train", "impala", "CartPole-v1", "--workflow", "queue", "--engine", "mpi", "--actors", "2", "--steps", "400"),
    *("--envs-per-actor", "2", "--set", "agent.rows=16", "--set", "agent.network.hidden=[16]"),
)


@pytest.mark.parametrize("mpi", ["mpich", pytest.param("openmpi", marks=pytest.mark.verify)])
def test_a_get_that_waits_for_its_target_makes_everything_go_by_messages(
    whorl_command, tmp_path: Path, mpi: str
) -> None:
    """Memory that MPI has not allocated: the get really waits, until the other side comes to MPI again."""
    require(mpi)
    run = tmp_path / "run"
    ended = whorl_command(*SMALL, "--run-dir", run, "--set", f"engine.mpi={mpi}", WHORL_MPI_PRIVATE_MEMORY="1")
    assert ended.code == 0, ended.err
    told = re.search(r"one-sided access waits for its target here \((\d+) ms\): everything goes by messages", ended.out)
    assert told is not None, ended.out
    assert int(told[1]) >= 10
    assert result_of(run)["status"] == "completed"
