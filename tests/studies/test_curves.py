"""Curves are compared over what all of them have; sleeps imply what arithmetic says; storage is somebody's."""

from __future__ import annotations

import json
from pathlib import Path

from whorl.studies.contract import Cell
from whorl.studies.curves import mean_returns
from whorl.studies.frictionless import blocking_trajectories_per_s, trajectories_per_s
from whorl.studies.results import CellResult, Results, Taken, storage_by_role, thinned_curve


def run_with(env_steps: list[float], returns: list[float]) -> Results:
    curve = {"env_steps": env_steps, "wall_s": env_steps, "return_mean": returns}
    return Results("small", "inline", [CellResult(Cell({}, 1, ()), {}, curve, [1.0])])


def test_a_curve_that_begins_late_is_not_judged_by_its_better_part() -> None:
    early, late = run_with([0.0, 100.0], [0.0, 100.0]), run_with([50.0, 200.0], [50.0, 200.0])
    means = mean_returns({"early": early, "late": late})
    assert abs(means["early"][0] - 75.0) < 1e-6
    assert abs(means["late"][0] - 75.0) < 1e-6


def test_curves_without_common_steps_are_not_compared() -> None:
    assert mean_returns({"a": run_with([0.0, 1.0], [0.0, 1.0]), "b": run_with([2.0, 3.0], [0.0, 1.0])})["a"] == []
    assert mean_returns({"a": Results("small", "inline", [])}) == {"a": []}


def test_what_else_an_environment_measures_is_compared_over_common_steps_too(tmp_path: Path) -> None:
    def run_to(last: int) -> Results:
        path = tmp_path / "metrics.jsonl"
        lines = [
            {"update": n, "env_steps": n, "wall_s": 0.1 * n, "return_mean": 1.0, "converged_mean": n / 100}
            for n in range(last + 1)
        ]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        curve = thinned_curve(path, [Taken(1.0, last + 1)])
        return Results("small", "inline", [CellResult(Cell({}, 1, ()), {}, curve, [1.0])])

    means = mean_returns({"long": run_to(100), "short": run_to(50)}, "converged_mean")
    assert [round(mean, 6) for (mean,) in means.values()] == [0.25, 0.25], "and not 0.5 of the longer run"


def test_what_an_environment_does_not_measure_is_no_curve(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"update": 1, "env_steps": 1, "wall_s": 0.1, "return_mean": 1.0}\n')
    assert set(thinned_curve(path, [Taken(1.0, 1)])) == {"env_steps", "wall_s", "return_mean"}


def test_what_sleeps_imply() -> None:
    one, twenty = trajectories_per_s(139, 1, 0.5, 0.02), trajectories_per_s(120, 20, 0.5, 0.02)
    assert (round(one, 6), round(twenty, 6)) == (50.0, 240.0)
    assert round(100 * (1 - one / twenty), 1) == 79.2
    assert round(trajectories_per_s(3, 1, 0.05, 0.02) / blocking_trajectories_per_s(3, 0.05, 0.02), 2) == 1.17


def test_every_file_of_a_run_is_somebodys(tmp_path: Path) -> None:
    sizes = {
        "config.toml": 1,
        "metrics.jsonl": 2,
        "logs/actor-0.log": 4,
        "logs/actor-1.log": 8,
        "logs/learner-0.log": 16,
        "checkpoints/update-1/learner.safetensors": 32,
        "checkpoints/update-1/manifest.json": 64,
        "checkpoints/update-1/replay-0.safetensors": 128,
    }
    for name, size in sizes.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * size)
    assert storage_by_role(tmp_path) == {"run": 3, "actor": 12, "learner": 112, "replay": 128}
