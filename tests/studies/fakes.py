"""Results that nobody measured, for every cell of a study: enough for its report."""

from __future__ import annotations

from typing import Any

from whorl.studies.contract import Cell, Scale, Study
from whorl.studies.results import CellResult, Results

WAYS = ("one_by_one", "spread_one_by_one", "spread", "batched")


def fake_result(cell: Cell) -> CellResult:
    """Numbers that depend on the cell a little, so that intervals have a width."""
    size = 100.0 + sum(map(ord, cell.name)) % 17
    role = {"cpu_share": 0.5, "memory_bytes": 1e8, "bytes_sent": 1e6 + size}
    result: dict[str, Any] = {
        "env_steps_per_s": size,
        "wall_s": 10.0,
        "return_mean": size,
        "weights_sha256": f"seed {cell.seed}",
        "staleness": {"mean": 1.5},
        "transitions": {"used": 1000, "collected": 1100, "reused": 10},
        "resources": {"actor": role, "learner": role},
        "time_share": {"learner": {"waiting": 0.25}},
    }
    found: dict[str, Any] = {
        "percent": 95.0,
        "seconds": 1.0 + size / 1000,
        "ideal_s": 1.0,
        "gradient_steps": size,
        "learnt": True,
        "taken": [0, 10, 20],
        "measured": [1.0, 0.5, size / 1000],
        "trials": [{"env": "CartPole-v1", "learning_rate": rate, "score": size} for rate in (0.001, 0.01)],
        **dict.fromkeys(WAYS, size),
    }
    curve = {
        "env_steps": [0.0, 50.0, 100.0],
        "wall_s": [0.0, 5.0, 10.0],
        "return_mean": [10.0, 20.0, size],
        "converged_mean": [0.1, 0.2, size / 1000],
    }
    values = {"result": result, "found": found, "metrics": {"converged_mean": 0.5}, "storage_bytes": 1e6}
    return CellResult(cell, values, curve, [size / 10])


def fake_results(study: Study, scale: Scale) -> Results:
    """Of all cells."""
    engine = study.engine_for(scale)
    return Results(scale, engine, [fake_result(cell) for cell in study.cells(scale, engine)])
