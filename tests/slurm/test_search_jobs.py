"""A search over the nodes of a job: one command, from the check of its file to its report."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from tests.slurm.cluster import SlurmCluster
from tests.slurm.runs import log_of, result_of

from whorl.cli.main import main
from whorl.config.toml import write_toml

FUNCTIONS = """
import os, pathlib, time


def train(trial):
    study = trial.run_dir.parents[1]
    with (study / "logs" / f"{trial.run_dir.name}.places").open("a") as file:
        file.write(os.environ["SLURMD_NODENAME"] + "\\n")
    with trial.trainer() as trainer:
        while not trainer.done:
            trainer.step()
        while trial.tables["agent"]["learning_rate"] > 0.005 and not (study.parent / "go").exists():
            time.sleep(0.1)
    return trial.tables["agent"]["learning_rate"]
"""


def search_file(folder: Path, **settings: Any) -> Path:
    """A grid of two, of which the second ends when it is told to. Each asks for a whole node of 2 CPUs."""
    (folder / "placed.py").write_text(FUNCTIONS)
    file = folder / "search.toml"
    agent = {"name": "ppo", "rows": 16, "network": {"hidden": [8]}, "learning_rate": {"choices": [0.001, 0.01]}}
    tune = {"method": "grid", "function": "placed:train", "engine": "ray", "cpus_per_trial": 2.0, **settings}
    file.write_text(write_toml({"agent": agent, "env": {"id": "CartPole-v1"}, "run": {"steps": 200}, "tune": tune}))
    return file


def submitted(slurm: SlurmCluster, folder: Path, *words: object) -> int:
    done = slurm.whorl("slurm", "--submit", *words, PYTHONPATH=str(folder))
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[1])


def places(study: Path) -> list[list[str]]:
    return [path.read_text().split() for path in sorted((study / "logs").glob("*.places"))]


def await_second_trial(study: Path) -> None:
    end = time.monotonic() + 120
    while len(places(study)) < 2:
        assert time.monotonic() < end, log_of(study)
        time.sleep(0.2)


@pytest.mark.parametrize(
    ("options", "settings", "said"),
    [
        (("--nodes", "3"), {"engine": "local"}, 'say tune.engine = "ray" in the file, or one node'),
        ((), {"address": "10.0.0.1:6379"}, "tune.address: the job has a Ray cluster of its own"),
        (("--nodes", "3", "--head-mem", "1G"), {}, "a search has no learners and actors of its own"),
        ((), {"trails": 3}, "tune.trails in"),
        ((), {}, "is not empty, and holds no study"),
    ],
)
@pytest.mark.parametrize("system", ["slurm", "pbs"])
def test_a_search_that_cannot_be_is_refused_before_it_is_queued(
    system: str,
    options: tuple[str, ...],
    settings: dict[str, Any],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    study = tmp_path / "study"
    if "holds no study" in said:
        study.mkdir()
        (study / "mine.txt").touch()
    file = search_file(tmp_path, **settings)
    assert main([system, *options, "--submit", "--", "tune", str(file), "--study-dir", str(study)]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
    assert not (study / "job").exists()


def test_the_script_of_a_search_names_its_file_and_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    search_file(tmp_path)
    assert main(["slurm", "--nodes", "2", "--print", "--", "tune", "search.toml", "--parallel", "2"]) == 0
    study = tmp_path / "studies" / "search"
    script = capsys.readouterr().out
    assert f"-- tune {tmp_path}/search.toml --study-dir {study} --parallel 2\n" in script
    assert f"{study}/logs/job-%j.log" in script
    assert "--launch ray" in script
    assert not study.exists(), "printing makes nothing"


@pytest.mark.verify
@pytest.mark.timeout(300)
def test_trials_run_on_the_nodes_of_a_job(slurm: SlurmCluster, tmp_path: Path) -> None:
    study = tmp_path / "study"
    (tmp_path / "go").touch()
    file = search_file(tmp_path)
    three = ("--nodes", 3, "--cpus-per-node", 2, "--time", 10)
    job = submitted(slurm, tmp_path, *three, "--", "tune", file, "--study-dir", study)
    ended = slurm.wait_for(job)
    assert (ended.state, ended.exit_code) == ("COMPLETED", 0), log_of(study)
    assert result_of(study)["counts"] == {"done": 2}
    assert (study / "best.toml").is_file()
    assert len({node for nodes in places(study) for node in nodes}) == 2, "each trial asks for a whole node"


@pytest.mark.verify
@pytest.mark.timeout(300)
@pytest.mark.parametrize("engine", ["ray", "local"])
def test_a_search_that_is_warned_goes_on_in_another_job(slurm: SlurmCluster, tmp_path: Path, engine: str) -> None:
    study = tmp_path / "study"
    file = search_file(tmp_path, engine=engine, parallel=1)
    sizes = ("--nodes", 2 if engine == "ray" else 1, "--cpus-per-node", 2, "--time", 10)
    job = submitted(slurm, tmp_path, *sizes, "--no-requeue", "--", "tune", file, "--study-dir", study)
    await_second_trial(study)
    slurm.run("scancel", "--batch", "--signal=USR1", job)
    ended = slurm.wait_for(job)
    assert (ended.state, ended.exit_code) == ("FAILED", 75), log_of(study)
    assert "the trials are saved and the study stops" in log_of(study)
    (tmp_path / "go").touch()
    ended = slurm.wait_for(submitted(slurm, tmp_path, *sizes, "--", "tune", "--resume", study))
    assert (ended.state, ended.exit_code) == ("COMPLETED", 0), log_of(study)
    assert result_of(study)["counts"] == {"done": 2}
    assert [len(nodes) for nodes in places(study)] == [1, 2], "the trial that was done is not repeated"


@pytest.mark.verify
@pytest.mark.timeout(300)
def test_a_search_that_is_preempted_comes_back_by_itself(slurm: SlurmCluster, tmp_path: Path) -> None:
    study = tmp_path / "study"
    file = search_file(tmp_path, parallel=1)
    sizes = ("--nodes", 3, "--cpus-per-node", 2, "--time", 10, "--partition", "low")
    job = submitted(slurm, tmp_path, *sizes, "--", "tune", file, "--study-dir", study)
    await_second_trial(study)
    urgent = slurm.run("sbatch", "--parsable", "-p", "high", "-N4", "--exclusive", "-o", "/dev/null", "--wrap", "true")
    slurm.wait_for(urgent)
    (tmp_path / "go").touch()
    ended = slurm.wait_for(job)
    assert (ended.state, ended.exit_code) == ("COMPLETED", 0), log_of(study)
    assert ended.fields["Restarts"] == "1"
    assert "whorl: requeued" in log_of(study)
    assert "1 failed" not in log_of(study)
    assert result_of(study)["counts"] == {"done": 2}
    assert [len(nodes) for nodes in places(study)] == [1, 2], "the trial that was done is not repeated"
