"""Benchmarks: the arithmetic of reports, and what the command refuses."""

import json
from pathlib import Path

import pytest

from whorl import bench
from whorl.bench.elastic import phase_ends, updates_until_near
from whorl.bench.report import Measure, Report
from whorl.bench.sides import steady_rate
from whorl.errors import BadInputError, WhorlError


def measure(better: str) -> Measure:
    return Measure("m", "s", better, "by hand", {"peer": [4.0, 8.0, 5.0], "whorl": [10.0, 2.0, 20.0]})  # type: ignore[arg-type]


def test_medians_and_ratios() -> None:
    assert measure("higher").median("peer") == 5.0
    assert measure("higher").advantage("whorl", "peer") == 2.0
    assert measure("lower").advantage("whorl", "peer") == 0.5


def test_a_report_travels_as_json() -> None:
    plain = json.loads(json.dumps(Report("title", [measure("lower")], reference="peer").as_json()))
    assert plain["measures"][0]["medians"] == {"peer": 5.0, "whorl": 10.0}
    assert plain["machine"]["cpus"] >= 1


def test_the_rate_leaves_the_warm_up_out(tmp_path: Path) -> None:
    metrics = tmp_path / "metrics.jsonl"
    points = [(256, 9.0), (512, 10.0), (768, 10.5), (1024, 11.0)]
    metrics.write_text("".join(json.dumps({"env_steps": n, "wall_s": t}) + "\n" for n, t in points))
    assert steady_rate(metrics, 500) == 512.0
    with pytest.raises(WhorlError, match="fewer than two lines"):
        steady_rate(metrics, 1000)


def test_benchmarks_are_listed_and_unknown_ones_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main([]) == 0
    assert "whorl bench ppo" in capsys.readouterr().out
    with pytest.raises(BadInputError, match="no benchmark 'pop'"):
        bench.main(["pop"])


def test_results_go_to_the_console_and_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(bench.BENCHMARKS, "fake", (f"{__name__}:fake", "none"))
    monkeypatch.setattr(bench, "_function", lambda where: fake)
    assert bench.main(["fake"], repeats=2, out=tmp_path / "out.json") == 0
    assert json.loads((tmp_path / "out.json").read_text())[0]["title"] == "2 repeats"
    assert "times better" in capsys.readouterr().out


def test_figures_that_could_not_be_kept_are_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for out in (tmp_path, tmp_path / "none" / "out.json"):
        with pytest.raises(BadInputError, match="the figures cannot be written there"):
            bench.main(["ppo"], out=out)
    (tmp_path / ".bench").rmdir()
    (tmp_path / ".bench").touch()
    with pytest.raises(BadInputError, match=r".bench: cannot be made here: File exists"):
        bench.main(["ppo"])


def fake(repeats: int, directory: Path) -> Report:
    return Report(f"{repeats} repeats", [measure("higher")], reference="peer", notes=["a note"])


def test_how_soon_a_rate_follows_a_change(tmp_path: Path) -> None:
    """Two actors give 80 env steps/s from 1600 on: the update of the change still goes at twice that."""
    metrics = tmp_path / "metrics.jsonl"
    points = [(800, 5.0), (1600, 10.0), (1680, 10.5), (1760, 11.5), (1840, 12.5)]
    metrics.write_text("".join(json.dumps({"env_steps": n, "wall_s": t}) + "\n" for n, t in points))
    assert phase_ends((4, 2), 10.0) == [1600, 2400]
    assert updates_until_near(metrics, (4, 2), 10.0) == [2.0]


def test_a_missing_extra_is_told_before_peers_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(bench.NEEDS, "envs", {"atari": "ale_py_that_is_not_here", "remote": "json"})
    with pytest.raises(BadInputError, match=r"pip install 'whorl\[atari\]'$"):
        bench.main(["envs"])
