"""The whole matrix on both MPIs, with their shared memory and without. `tools/verify.py` runs a few pairs at a time."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.mpi.conftest import WITHOUT_SHARED_MEMORY, require
from tests.workflows.matrix_jobs import JOBS, keywords, refusal

import whorl
from whorl.workflows.registry import workflow_table

PAIRS = [(kind, workflow) for kind in JOBS for workflow, _ in workflow_table()]


@pytest.mark.verify
@pytest.mark.parametrize("memory", ["shared", "apart"])
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
@pytest.mark.parametrize(("kind", "workflow"), PAIRS)
def test_each_pair(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, workflow: str, mpi: str, memory: str
) -> None:
    require(mpi)
    if refusal(kind, workflow) is not None:
        pytest.skip("refused, as the page says")
    for name, value in WITHOUT_SHARED_MEMORY[mpi].items() if memory == "apart" else ():
        monkeypatch.setenv(name, value)
    agent, env, settings = keywords(kind, workflow)
    settings["set"] = {**settings["set"], "engine.mpi": mpi}
    run = whorl.train(agent, env, engine="mpi", run_dir=tmp_path / "run", **settings)
    assert run.status == "completed"
    assert run.result.transitions.balanced
    assert run.result.transitions.lost == 0
    assert run.result.updates > 0
