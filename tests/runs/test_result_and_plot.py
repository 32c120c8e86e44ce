from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from whorl.errors import BadInputError, MissingExtraError
from whorl.runs.metrics import MetricsWriter
from whorl.runs.plot import Curves, group_runs, plot_runs, smooth
from whorl.runs.result import Result, Staleness, Transitions
from whorl.runs.run import Run

RESULT = Result(
    status="stopped",
    agent="ppo",
    env="CartPole-v1",
    workflow="sync",
    engine="inline",
    env_steps=1024,
    updates=4,
    episodes=40,
    return_mean=21.5,
    wall_s=1.25,
    env_steps_per_s=819.2,
    weights_sha256="ab" * 32,
    exact=True,
    staleness=Staleness(0.5, 1.0, 1),
    transitions=Transitions(collected=10, used=6, dropped=2, lost=1, in_flight=1, reused=6),
    time_share={"learner": {"learning": 0.5}},
    restarts={"actor": 1},
)


def make_run(path: Path, agent: str = "ppo", seed: int = 1, updates: int = 20) -> Path:
    path.mkdir()
    (path / "config.toml").write_text(f'[agent]\nname = "{agent}"\n[env]\nid = "X-v1"\n[run]\nseed = {seed}\n')
    writer = MetricsWriter(path / "metrics.jsonl")
    for update in range(1, updates + 1):
        writer.write(
            {
                "update": update,
                "env_steps": update * 256,
                "return_mean": update * 2.0 if update > 2 else math.nan,
                "env_steps_per_s": 900.0,
            }
        )
    writer.close()
    RESULT.write(path / "result.json")
    return path


def test_result_round_trip(tmp_path: Path) -> None:
    RESULT.write(tmp_path / "result.json")
    assert Result.read(tmp_path / "result.json") == RESULT
    assert [entry.name for entry in tmp_path.iterdir()] == ["result.json"]
    assert RESULT.transitions.balanced
    assert not Transitions(collected=1).balanced


def test_what_does_not_exist_is_null(tmp_path: Path) -> None:
    replace(RESULT, return_mean=math.nan, staleness=Staleness(math.nan, math.inf, 0)).write(tmp_path / "r.json")
    assert b'"return_mean": null' in (tmp_path / "r.json").read_bytes()
    back = Result.read(tmp_path / "r.json")
    assert (back.return_mean, back.staleness.mean, back.staleness.p99) == (None, None, None)


@pytest.mark.parametrize("text", ["", "[]", '{"status": "great"}', "\xff"])
def test_not_a_result(tmp_path: Path, text: str) -> None:
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(BadInputError, match="not a result of a run"):
        Result.read(tmp_path / "r.json")
    with pytest.raises(BadInputError, match="cannot read the result"):
        Result.read(tmp_path / "nowhere.json")


def test_run_opens_what_was_left_behind(tmp_path: Path) -> None:
    run = Run.open(make_run(tmp_path / "a"))
    assert (run.status, run.result.updates) == ("stopped", 4)
    assert run.metrics["env_steps"][-1] == 5120
    with pytest.raises(BadInputError, match="without a policy"):
        _ = run.policy


def test_plots_are_pictures(tmp_path: Path) -> None:
    paths = [make_run(tmp_path / f"s{seed}", seed=seed, updates=20 + seed) for seed in range(3)]
    paths.append(make_run(tmp_path / "a2c", agent="a2c"))
    out = plot_runs(paths, tmp_path / "deep" / "curve.png")
    assert out.read_bytes().startswith(b"\x89PNG")
    assert out.stat().st_size > 10_000
    assert plot_runs(paths[:1], tmp_path / "one.svg").read_bytes().startswith(b"<?xml")


def test_a_run_without_episodes_is_drawn(tmp_path: Path) -> None:
    assert plot_runs([make_run(tmp_path / "young", updates=1)], tmp_path / "x.png").exists()


def test_seeds_are_grouped(tmp_path: Path) -> None:
    def curves(name: str, agent: str, seed: int, rate: float = 0.1) -> Curves:
        config = {"agent": {"name": agent, "rate": rate}, "env": {"id": "X-v1"}, "run": {"seed": seed, "steps": 9}}
        return Curves(tmp_path / name, config, {})

    runs = [curves("a", "ppo", 1), curves("b", "a2c", 1), curves("c", "ppo", 2), curves("d", "ppo", 3, rate=0.2)]
    assert [(group.label, len(group.members)) for group in group_runs(runs)] == [
        ("ppo on X-v1 (rate 0.1), mean of 2 seeds", 2),
        ("a2c on X-v1", 1),
        ("ppo on X-v1 (rate 0.2)", 1),
    ]


def test_smoothing_shifts_nothing() -> None:
    np.testing.assert_allclose(smooth(np.arange(9.0), 5), np.arange(9.0))
    np.testing.assert_allclose(smooth(np.array([0.0, 3.0, 0.0]), 3), [0.0, 1.0, 0.0])


def test_what_cannot_be_plotted_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path / "run")
    with pytest.raises(BadInputError, match="nothing to plot"):
        plot_runs([], tmp_path / "x.png")
    with pytest.raises(BadInputError, match="cannot draw this kind of picture"):
        plot_runs([run], tmp_path / "x.exe")
    with pytest.raises(BadInputError, match="a directory; name a picture in it"):
        plot_runs([run], tmp_path)
    (run / "metrics.jsonl").unlink()
    with pytest.raises(BadInputError, match="no metrics to plot yet"):
        plot_runs([run], tmp_path / "x.png")
    (run / "config.toml").write_text("= broken")
    with pytest.raises(BadInputError, match=r"config\.toml: cannot be read"):
        plot_runs([run], tmp_path / "x.png")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'whorl\[plot\]'"):
        plot_runs([run], tmp_path / "x.png")
