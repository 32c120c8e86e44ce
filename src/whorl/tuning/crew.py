"""Trials under way: started in free slots, watched by their metrics, and told about when they have ended."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from whorl.errors import EXIT_DONE, EXIT_PREEMPTED, BadInputError
from whorl.runs.directory import RunDirectory
from whorl.runs.result import Result
from whorl.runs.status import one_line
from whorl.signals import StopSignals
from whorl.tuning.curve import Curve
from whorl.tuning.directory import StudyDirectory
from whorl.tuning.executor import Ended, Executor, Order, log_tail
from whorl.tuning.search_file import SearchFile
from whorl.tuning.table import StudyTable, TrialRow
from whorl.tuning.worker import read_score

LOOK_EVERY_S = 0.25


@dataclass
class Running:
    """A trial under way."""

    number: int
    labels: Mapping[str, Any]
    curve: Curve
    started_at: float = field(default_factory=time.monotonic)
    pruned: bool = False

    @property
    def seconds(self) -> float:
        """Since it was started here."""
        return time.monotonic() - self.started_at


@dataclass(frozen=True)
class Outcome:
    """How a trial ended."""

    trial: Running
    status: str
    """``done``, ``failed`` or ``preempted``."""
    score: float | None = None
    error: str = ""


class Crew:
    """Runs the trials of one study. A trial that fails is an outcome like any other."""

    def __init__(
        self,
        search: SearchFile,
        directory: StudyDirectory,
        executor: Executor,
        table: StudyTable,
        signals: StopSignals,
    ) -> None:
        self.search, self.directory, self.table = search, directory, table
        self._executor, self._signals = executor, signals
        self._running: dict[int, Running] = {}

    @property
    def stopped(self) -> bool:
        """A signal has come: nothing is started any more."""
        return self._signals.received is not None

    @property
    def running(self) -> list[Running]:
        return list(self._running.values())

    @property
    def has_room(self) -> bool:
        return len(self._running) < self._executor.slots and not self.stopped

    def start(self, number: int, labels: Mapping[str, Any], *, until_env_steps: int = 0, seed_offset: int = 0) -> None:
        """Begin a trial, or go on with one that a run directory tells of."""
        layer = self.search.layer(labels)
        if seed_offset:
            seed = self.search.config(labels).run.seed + seed_offset
            layer["run"] = {**layer.get("run", {}), "seed": seed}
        run_dir = self.directory.run_dir(number)
        self.table.say(_begun(number, run_dir, until_env_steps))
        order = Order(
            number=number,
            run_dir=str(run_dir),
            log=str(self.directory.log(number)),
            layer=layer,
            source=f"{self.directory.file} (trial {number})",
            function=self.search.settings.function,
            until_env_steps=until_env_steps,
        )
        self._executor.start(order)
        self._running[number] = Running(number, labels, Curve(run_dir / "metrics.jsonl", self.search.settings.metric))
        self.table.put(TrialRow(number, "running", labels))

    def prune(self, trial: Running) -> None:
        """Have it save and end; it can be gone on with by hand."""
        trial.pruned = True
        self._executor.stop(trial.number)

    def wait(self, look: Callable[[Running], None] | None = None) -> Iterable[Outcome]:
        """Look at each trial's metrics, and tell of those that have ended."""
        if self.stopped:
            for number in self._running:
                self._executor.stop(number)
        ended = self._executor.wait(LOOK_EVERY_S)
        over = {end.number for end in ended}
        for trial in self.running:
            trial.curve.read()
            if look is not None and not trial.pruned and trial.number not in over:
                look(trial)
            self.table.put(
                TrialRow(
                    trial.number,
                    "pruned" if trial.pruned else "running",
                    trial.labels,
                    trial.curve.env_steps,
                    trial.curve.points[-1][1] if trial.curve.points else None,
                    seconds=trial.seconds,
                )
            )
        for end in ended:
            yield self._outcome(self._running.pop(end.number), end)
        self.table.show()

    def _outcome(self, trial: Running, end: Ended) -> Outcome:
        if trial.pruned:
            return Outcome(trial, "pruned")
        # A signal ends who was only about to begin, and who has not saved in time: a resumed study goes on with both.
        if self.stopped and (end.code == EXIT_PREEMPTED or end.code < 0):
            return Outcome(trial, "preempted")
        if end.code != EXIT_DONE:
            return Outcome(trial, "failed", error=self._cause(end))
        score = self.score(trial)
        if score is None:
            return Outcome(trial, "failed", error=_without_score(trial.curve))
        if not math.isfinite(score):  # nothing can be compared with it
            return Outcome(trial, "failed", error=f"the function returned {score:g}")
        return Outcome(trial, "done", score)

    def score(self, trial: Running) -> float | None:
        """What a user's function returned, or what the curve gives."""
        if self.search.settings.function:
            returned = read_score(self.directory.run_dir(trial.number))
            if returned is not None:
                return returned
        kind = "last" if self.search.settings.method == "pbt" else self.search.settings.score
        return trial.curve.score(kind, self.search.settings.goal)

    def _cause(self, end: Ended) -> str:
        """In one line: what the executor knows, else what the run says of itself, else the last its process printed."""
        if end.error:
            return one_line(end.error, 300)
        said = ""
        try:
            result = Result.read(RunDirectory(self.directory.run_dir(end.number)).result)
            said = (result.error or "") if result.status == "failed" else ""
        except BadInputError:
            pass
        said = said or log_tail(self.directory.log(end.number)).removeprefix("whorl: error: ")
        how = f"killed by signal {-end.code}" if end.code < 0 else f"exit code {end.code}"
        return one_line(f"{how}: {said}" if said else how, 300)


def _begun(number: int, run_dir: Path, until_env_steps: int) -> str:
    from whorl.runs.checkpoint import find_checkpoints

    if not (run_dir / "config.toml").is_file():
        return f"trial {number}: started"
    checkpoints = [found.manifest for found in find_checkpoints(run_dir / "checkpoints") if found.manifest]
    if not checkpoints:
        return f"trial {number}: had no checkpoint yet, started again"
    until = f", until {until_env_steps:,} env steps" if until_env_steps else ""
    return f"trial {number}: goes on from its checkpoint at {checkpoints[-1].env_steps:,} env steps{until}"


def _without_score(curve: Curve) -> str:
    if curve.metric in curve.names:
        return f"it ended before there was a {curve.metric} (no episode had ended?); give trials more run.steps"
    known = ", ".join(sorted(curve.names)) or "it has none"
    return f"it ended without a {curve.metric} among its metrics: {known}"
