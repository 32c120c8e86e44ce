"""How trials end: by themselves, by a signal, or as their executor says."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from whorl.errors import EXIT_DONE, EXIT_FAILED, EXIT_PREEMPTED
from whorl.tuning import local
from whorl.tuning.crew import Crew, Outcome, Running
from whorl.tuning.curve import Curve
from whorl.tuning.executor import Ended, Order
from whorl.tuning.local import LocalExecutor
from whorl.tuning.settings import TuneConfig


class Silent:
    """An executor of one trial, which ends as it is told."""

    slots = 1

    def __init__(self, end: Ended) -> None:
        self._end = end

    def stop(self, number: int) -> None:
        assert number == self._end.number

    def wait(self, timeout_s: float) -> list[Ended]:
        return [self._end]


def crew_of(executor: Any, folder: Path, received: str | None) -> Crew:
    """With trial 0 under way."""
    search: Any = SimpleNamespace(settings=TuneConfig(function="lab:score"))
    directory: Any = SimpleNamespace(run_dir=lambda number: folder, log=lambda number: folder / "log")
    table: Any = SimpleNamespace(put=lambda row: None, show=lambda: None)
    signals: Any = SimpleNamespace(received=received)
    crew = Crew(search, directory, executor, table, signals)
    crew._running[0] = Running(0, {}, Curve(folder / "metrics.jsonl", "return_mean"))
    return crew


def outcome_of(end: Ended, folder: Path, received: str | None = None) -> Outcome:
    (outcome,) = crew_of(Silent(end), folder, received).wait()
    return outcome


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (EXIT_PREEMPTED, "preempted"),
        (-signal.SIGTERM, "preempted"),  # it was about to begin
        (-signal.SIGKILL, "preempted"),  # it did not save in time
        (EXIT_FAILED, "failed"),
    ],
)
def test_what_a_signal_ends_while_the_study_stops_has_not_failed(tmp_path: Path, code: int, status: str) -> None:
    assert outcome_of(Ended(0, code), tmp_path, received="SIGTERM").status == status
    assert outcome_of(Ended(0, code), tmp_path).status == "failed", "nobody has asked it to end"


def test_a_trial_that_is_stopped_as_it_starts_has_not_failed(tmp_path: Path) -> None:
    """Its process has no handler for the signal yet."""
    executor = LocalExecutor(1)
    try:
        executor.start(Order(0, str(tmp_path / "run"), str(tmp_path / "log"), {}, "here"))
        crew = crew_of(executor, tmp_path, received="SIGTERM")
        outcomes: list[Outcome] = []
        while not outcomes:
            outcomes.extend(crew.wait())
    finally:
        executor.close()
    assert (tmp_path / "log").read_bytes() == b"", "it had not begun"
    assert outcomes[0].status == "preempted"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("0.5", ""),
        ('"nan"', "the function returned nan"),
        ('"-inf"', "the function returned -inf"),
        ("null", "the function returned nan"),
    ],
)
def test_a_score_that_is_no_number_is_a_failure(tmp_path: Path, text: str, error: str) -> None:
    (tmp_path / "score.json").write_text(text)
    outcome = outcome_of(Ended(0, EXIT_DONE), tmp_path)
    assert outcome.error == error
    assert (outcome.status, outcome.score) == (("failed", None) if error else ("done", 0.5))


def test_what_the_executor_knows_comes_before_what_was_printed(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("whorl: error: of an earlier attempt\n")
    assert outcome_of(Ended(0, EXIT_FAILED), tmp_path).error == "exit code 1: of an earlier attempt"
    assert outcome_of(Ended(0, EXIT_FAILED, "OSError: no\nspace"), tmp_path).error == "OSError: no space"


@pytest.mark.parametrize("job", ["SLURM_JOB_ID", "PBS_JOBID"])
def test_in_a_batch_job_there_are_as_many_trials_as_it_has_cpus_for(monkeypatch: pytest.MonkeyPatch, job: str) -> None:
    for name in ("SLURM_JOB_ID", "PBS_JOBID", "SLURM_CPUS_ON_NODE", "WHORL_NODE_CPUS", "NCPUS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(64)))
    monkeypatch.setenv("NCPUS", "6")
    assert local.own_cpus() == 64, "it is somebody else's word outside of a job"
    monkeypatch.setenv(job, "7")
    monkeypatch.setenv("PBS_NODEFILE", "/not/in/this/container")
    assert local.own_cpus() == 6
    assert LocalExecutor.for_settings(TuneConfig(cpus_per_trial=0.2), 100).slots == 30
    assert LocalExecutor.for_settings(TuneConfig(cpus_per_trial=2), 100).slots == 3
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1})
    assert local.own_cpus() == 2, "nor more than it may run on"
