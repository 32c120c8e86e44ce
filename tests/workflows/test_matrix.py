"""The matrix: every agent in every workflow that takes it runs, conserves transitions and ends clean.

Each pair of an agent and a workflow once here, on one engine or the other; on both in `make verify`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from matrix_jobs import JOBS, keywords, refusal

import whorl
from whorl.workflows.registry import workflow_table

WORKFLOWS = [name for name, _ in workflow_table()]
PAIRS = [(kind, workflow) for kind in JOBS for workflow in WORKFLOWS]
ROOT = Path(__file__).parents[2]


def check(folder: Path, kind: str, workflow: str, engine: str) -> None:
    if refusal(kind, workflow) is not None:
        pytest.skip("refused, as the page says")
    agent, env, settings = keywords(kind, workflow)
    run = whorl.train(agent, env, engine=engine, run_dir=folder / "run", **settings)
    result = run.result
    assert run.status == "completed"
    assert result.transitions.balanced
    assert result.transitions.in_flight >= 0
    assert result.transitions.lost == 0
    assert result.updates > 0
    assert set(result.restarts.values()) <= {0}


@pytest.mark.parametrize(("kind", "workflow"), PAIRS)
def test_each_pair_on_one_engine(tmp_path: Path, kind: str, workflow: str) -> None:
    place = list(JOBS).index(kind) + WORKFLOWS.index(workflow)
    check(tmp_path, kind, workflow, ("inline", "local")[place % 2])


ON_MPI = {
    "overlap": "lstm ppo",
    "async": "sac",
    "window": "impala",
    "queue": "impala",
    "seed": "lstm impala",
    "replay": "dqn",
    "allreduce": "ppo",
    "gradients": "a2c",
}
"""Every workflow once; sync is in the tests of exactness."""


@pytest.mark.parametrize("workflow", ON_MPI)
def test_each_workflow_on_mpi(tmp_path: Path, workflow: str) -> None:
    if not os.environ.get("CI"):
        pytest.importorskip("mpi4py", reason="needs pip install 'whorl[mpi]'")
    check(tmp_path, ON_MPI[workflow], workflow, "mpi")


@pytest.mark.verify
@pytest.mark.parametrize("engine", ["inline", "local"])  # on mpi: tests/mpi
@pytest.mark.parametrize(("kind", "workflow"), PAIRS)
def test_each_pair_on_every_engine(tmp_path: Path, kind: str, workflow: str, engine: str) -> None:
    check(tmp_path, kind, workflow, engine)


def test_the_page_says_what_is_so() -> None:
    subprocess.run([sys.executable, "tools/matrix.py", "--check"], cwd=ROOT, check=True)
