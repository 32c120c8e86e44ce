"""The directory of a study: everything a search leaves behind.

studies/cartpole/
    tune.toml        the file that is searched over
    journal.log      Optuna's journal: every trial, its values, its state
    trials/0003/     each trial's run directory, as any other
    logs/0003.log    what its process printed
    lineage.jsonl    pbt: which trial began from which checkpoint of which other
    best.toml        the best settings, as a preset file (best-ENV.toml where there are several environments)
    trials.csv, result.json, study.png
    lock             who writes here
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from whorl.config.toml import load_toml, write_toml
from whorl.errors import BadInputError, MissingExtraError, RunBusyError, WhorlError
from whorl.runs.directory import is_vacant
from whorl.runs.files import open_for_lines, os_reason, write_atomic
from whorl.runs.lock import RunLock, read_holder
from whorl.tuning.search_file import SearchFile, same_search

if TYPE_CHECKING:
    import optuna

STUDY_NAME = "whorl"


@dataclass(frozen=True)
class StudyDirectory:
    """Paths of one study."""

    path: Path

    @property
    def file(self) -> Path:
        return self.path / "tune.toml"

    @property
    def journal(self) -> Path:
        return self.path / "journal.log"

    @property
    def result(self) -> Path:
        return self.path / "result.json"

    @property
    def lineage(self) -> Path:
        return self.path / "lineage.jsonl"

    def run_dir(self, number: int) -> Path:
        """Of the trial of this number."""
        return self.path / "trials" / f"{number:04d}"

    def log(self, number: int) -> Path:
        return self.path / "logs" / f"{number:04d}.log"

    @classmethod
    def open(cls, path: Path) -> StudyDirectory:
        """One that exists."""
        if not (path / "tune.toml").is_file():
            raise BadInputError(f"{path}: not the directory of a study (it holds no tune.toml)")
        return cls(path)

    def check(self, search: SearchFile) -> None:
        """Refuse a place that holds anything but this search."""
        try:
            holds_study = self.file.is_file()
            is_free = holds_study or (self.path / "trials").is_dir() or not self.path.exists() or is_vacant(self.path)
        except OSError as error:
            raise self._unusable(error) from error
        if not is_free:
            raise BadInputError(f"{self.path}: is not empty, and holds no study; give another --study-dir")
        if holds_study and not same_search(load_toml(self.file), search.tables):
            raise BadInputError(
                f"{self.path}: holds a study of another search; give another --study-dir, or "
                f"`whorl tune --resume {self.path}` goes on with that one"
            )

    def _unusable(self, error: OSError) -> BadInputError:
        return BadInputError(
            f"{self.path}: cannot make a study's directory: {os_reason(error)}; give another --study-dir"
        )

    def claim(self, search: SearchFile) -> RunLock:
        """Become the one writer of a new study, or of one of the same search. ``lock.close()`` lets go."""
        self.check(search)
        try:
            for folder in (self.path / "trials", self.path / "logs"):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._unusable(error) from error
        try:
            lock = RunLock(self.path / "lock")
        except RunBusyError:
            raise RunBusyError(
                f"{self.path}: a study goes on here (by {read_holder(self.path / 'lock')}); wait for its end, or give "
                "another --study-dir"
            ) from None
        try:
            self.check(search)  # once more: who held the lock may have begun another
            write_atomic(self.file, write_toml(search.tables).encode())
        except BaseException:
            lock.close()
            raise
        return lock

    def open_journal(self, search: SearchFile) -> optuna.Study:
        """Optuna's study. Only for who holds the lock: what a killed predecessor left half-done is cleared away."""
        require_optuna()
        import optuna
        from optuna.storages.journal import JournalFileBackend, JournalStorage

        # Its lock is a name that a killed process leaves behind; ours died with it.
        Path(f"{self.journal}.lock").unlink(missing_ok=True)
        if self.journal.exists():
            os.close(open_for_lines(self.journal))
        directions = optuna.study.StudyDirection
        direction = directions.MAXIMIZE if search.settings.goal == "maximise" else directions.MINIMIZE
        try:
            return optuna.create_study(
                storage=JournalStorage(JournalFileBackend(os.fspath(self.journal))),
                study_name=STUDY_NAME,
                direction=direction,
                load_if_exists=True,
            )
        except (ValueError, KeyError, AssertionError) as error:
            raise WhorlError(f"{self.journal}: damaged ({error}); restore it from a copy, or begin anew") from error


def require_optuna() -> None:
    """Make the library silent; ``MissingExtraError`` without it."""
    try:
        import optuna
    except ImportError as error:
        raise MissingExtraError("searching needs optuna, which is not installed: pip install 'whorl[tune]'") from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
