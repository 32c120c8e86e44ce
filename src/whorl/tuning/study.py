"""A search from its file to its report: ``whorl.tune`` and ``whorl tune``."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from whorl.cluster.timing import TimeLimit
from whorl.config.toml import load_toml
from whorl.errors import EXIT_DONE, EXIT_FAILED, EXIT_PREEMPTED, BadInputError, MissingExtraError, WhorlError
from whorl.runs.files import file_safe, shown
from whorl.runs.wishes import WishBox
from whorl.signals import StopSignals
from whorl.tuning.directory import StudyDirectory, require_optuna
from whorl.tuning.executor import Executor
from whorl.tuning.local import LocalExecutor
from whorl.tuning.search_file import SearchFile, describe, read_search
from whorl.tuning.settings import TuneConfig
from whorl.tuning.table import StudyTable, TrialRow, make_table, values_text

if TYPE_CHECKING:  # they import optuna, which may be absent
    import optuna

    from whorl.tuning.report import Best, StudyResult, TrialSummary


@dataclass(frozen=True)
class Study:
    """A study that was run: to its end, or to a signal."""

    path: Path
    result: StudyResult
    """What ``result.json`` holds."""
    trials: list[TrialSummary]

    @property
    def status(self) -> str:
        """``completed``, ``preempted`` or ``failed`` (no trial was done)."""
        return self.result.status

    @property
    def best(self) -> Best | None:
        """The best trial (of the first environment, where there are several); None where none was done."""
        return self.result.best[0] if self.result.best else None


def tune(
    what: str | Path | Mapping[str, Any],
    *,
    study_dir: str | Path | None = None,
    quiet: bool = True,
    **settings: Any,
) -> Study:
    """Search over a file, or over the same as nested dicts; ``settings`` change ``[tune]``: ``trials=50``. A study that
    was stopped goes on. Ctrl-C or SIGTERM ends it early: its trials save, and its status is ``preempted``."""
    return run_study(*_searched(what, study_dir, settings), quiet)


def _searched(
    what: str | Path | Mapping[str, Any], study_dir: str | Path | None, settings: Mapping[str, Any]
) -> tuple[SearchFile, Path]:
    """A checked search, and where its study is kept."""
    require_optuna()
    if isinstance(what, Mapping):
        tables, source, stem = what, "the given tables", "study"
    else:
        tables, source, stem = load_toml(Path(what)), str(what), Path(what).stem
    search = read_search(_with(tables, settings), source)
    return search, Path(study_dir) if study_dir else Path("studies") / file_safe(stem)


def resume_study(study_dir: Path, quiet: bool = True, **settings: Any) -> Study:
    """Go on with the study of a directory."""
    return run_study(_search_of(study_dir, settings), study_dir, quiet)


def _search_of(study_dir: Path, settings: Mapping[str, Any]) -> SearchFile:
    """The checked search of a study that was begun."""
    require_optuna()
    directory = StudyDirectory.open(study_dir)
    return read_search(_with(load_toml(directory.file), settings), str(directory.file))


def _with(tables: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    table = tables.get("tune", {})
    return {**tables, "tune": {**table, **settings}} if isinstance(table, Mapping) else dict(tables)


def run_study(search: SearchFile, path: Path, quiet: bool) -> Study:
    """Run, or go on, under signals; always leaves a report and no process."""
    executor = make_executor(search.settings, search.trials)
    directory = StudyDirectory(path.absolute())
    with contextlib.closing(executor), StopSignals() as signals, directory.claim(search):
        signals.hold(_JobWarning(search, directory))
        began = time.monotonic()
        study = directory.open_journal(search)
        table = make_table(describe(search), _total(search), quiet)
        try:
            _run(search, directory, study, executor, table, signals)
        finally:
            executor.close()
            table.close()
        return _report(search, directory, study, signals.received is not None, time.monotonic() - began)


class _JobWarning:
    """The batch job that a study runs in is nearly over: by its time, or by the word of its batch process, which comes
    as a wish."""

    def __init__(self, search: SearchFile, directory: StudyDirectory) -> None:
        # Not later than its trials think so themselves: what they end with would be a failure.
        self._limit = TimeLimit(search.config(search.first_labels()).run.stop_before_s)
        self._box = WishBox(directory.path)

    def is_near(self) -> bool:
        """The study is to be saved, and to stop."""
        wish = self._box.look()
        if wish is not None and wish.stop:
            self._box.answer(wish, "the trials are saved and the study stops")
            return True
        if wish is not None:
            self._box.answer(wish, "a study has no actors of its own, its trials have", refused=True)
        return self._limit.is_near()


def make_executor(settings: TuneConfig, trials: int) -> Executor:
    """As ``[tune]`` says; refused here where there is no room for a trial."""
    if settings.engine == "ray":
        from whorl.tuning.ray import RayExecutor

        return RayExecutor(settings, trials)
    return LocalExecutor.for_settings(settings, trials)


def _total(search: SearchFile) -> int:
    from whorl.tuning.population import generations_of

    return search.trials * (generations_of(search) if search.settings.method == "pbt" else 1)


def _run(
    search: SearchFile,
    directory: StudyDirectory,
    study: optuna.Study,
    executor: Executor,
    table: StudyTable,
    signals: StopSignals,
) -> None:
    from whorl.tuning.crew import Crew
    from whorl.tuning.population import Population
    from whorl.tuning.report import summaries
    from whorl.tuning.search import Search

    for trial in summaries(search, study, directory):
        if trial.state in ("done", "pruned", "failed"):
            table.put(TrialRow(trial.number, trial.state, trial.values, trial.env_steps, trial.score, trial.error))
    if table.rows:
        table.say(f"the study goes on: {table.counts()}")
    crew = Crew(search, directory, executor, table, signals)
    if search.settings.method == "pbt":
        Population(search, study, crew, directory).run()
    else:
        Search(search, study, crew).run()


def _report(
    search: SearchFile, directory: StudyDirectory, study: optuna.Study, preempted: bool, wall_s: float
) -> Study:
    from whorl.tuning.pictures import draw_study
    from whorl.tuning.report import summaries, write_report

    trials = summaries(search, study, directory)
    unfinished = any(trial.state in ("unfinished", "waiting") for trial in trials)
    status: Literal["completed", "preempted", "failed"] = "completed"
    if preempted and (unfinished or len(trials) < _total(search)):
        status = "preempted"
    elif not any(trial.state == "done" for trial in trials):
        status = "failed"
    result = write_report(search, directory, trials, status, wall_s)
    if result.best:
        with contextlib.suppress(MissingExtraError):  # whorl[plot] is not needed to search
            draw_study(search, study, trials, directory.path / "study.png")
    return Study(directory.path, result, trials)


def run_command(file: Path | None, study_dir: Path | None, resume: Path | None, quiet: bool, **settings: Any) -> int:
    """``whorl tune``: returns the exit code."""
    study = run_study(*asked_for(file, study_dir, resume, settings), quiet)
    for line in closing_lines(study):
        print(line)
    if study.status == "preempted":
        return EXIT_PREEMPTED
    if study.status == "failed":
        failed = next((trial for trial in study.trials if trial.error), None)
        cause = f"; trial {failed.number}: {failed.error}" if failed else ""
        raise WhorlError(f"{shown(study.path)}: no trial was done{cause}")
    return EXIT_DONE if study.status == "completed" else EXIT_FAILED


def asked_for(
    file: Path | None, study_dir: Path | None, resume: Path | None, settings: Mapping[str, Any]
) -> tuple[SearchFile, Path]:
    """What a command line names: a checked search, and where its study is kept."""
    if resume is not None:
        if file is not None or study_dir is not None:
            raise BadInputError(f"--resume {resume} names the study itself; leave out the file and --study-dir")
        return _search_of(resume, settings), resume
    if file is None:
        raise BadInputError("which file? Try: whorl tune FILE.toml, or whorl tune --resume STUDY_DIR")
    return _searched(file, study_dir, settings)


def closing_lines(study: Study) -> list[str]:
    """What came out, and what to do next."""
    path, result = shown(study.path), study.result
    counts = ", ".join(f"{count} {state}" for state, count in result.counts.items())
    head = {"completed": "Done", "preempted": "Preempted, saved and resumable", "failed": "Failed"}[study.status]
    lines = ["", f"{head}: {counts}; {result.env_steps:,} env steps"]
    for best in result.best:
        lines.append(
            f"  best      {best.env}: {result.metric} {best.score:.4g}, trial {best.trial} ({values_text(best.values)})"
        )
        lines.append(f"            whorl train {shown(Path(best.preset))}")
    if (study.path / "study.png").is_file():
        lines.append(f"  picture   {path}/study.png")
    if study.status == "preempted":
        lines.append(f"  go on     whorl tune --resume {path}")
    return lines
