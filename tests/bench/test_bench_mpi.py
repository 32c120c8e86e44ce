"""``whorl bench mpi`` at its smallest: every measure is taken on every MPI there is."""

from __future__ import annotations

from pathlib import Path

import pytest

from whorl.bench import mpi, mpi_allreduce
from whorl.engines.mpi.finding import installed


@pytest.mark.verify
@pytest.mark.timeout(600)
def test_everything_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if not installed():
        pytest.skip("needs pip install 'whorl[mpi]'")
    small = {"ACTORS": 2, "WARM_UP_S": 1, "MEASURED_S": 4, "WAITING": 2, "WAITING_S": 0.5, "DEEP_S": 0.5}
    for name, value in {**small, "BLOCKING_STEPS": 400, "ASYNC_STEPS": 1000}.items():
        monkeypatch.setattr(mpi, name, value)
    for name, value in {"RANKS": (1, 2), "THREADS": (1,), "REAL_STEPS": 4096, "SLOW_STEPS": 2048}.items():
        monkeypatch.setattr(mpi_allreduce, name, value)
    report = mpi.run(1, tmp_path)
    for measure in report.measures:
        assert measure.values, measure.name
        assert {subject.partition(":")[0] for subject in measure.values} == set(installed())
    targets = next(measure for measure in report.measures if "Bellman" in measure.name)
    assert all(targets.median(f"{name}: batched") < targets.median(f"{name}: one_by_one") for name in installed())
