"""The folder of a study: results as they come, so that one that was interrupted goes on with the cells it has not got.

studies/vtrace-small/
    study.json           which study, at which scale, on which engine
    cells/NAME.json      what a cell left behind; there once it has ended well, and never half
    cells/NAME/          its run directory and whatever else it wrote, without checkpoints once it has ended
    cells/NAME.log       what its processes printed
    FIGURE.csv           the numbers of each figure
    report.html, findings.json
    lock                 who writes here
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from whorl.errors import BadInputError, RunBusyError
from whorl.runs.files import os_reason, write_atomic
from whorl.runs.lock import RunLock, read_holder
from whorl.studies.contract import Cell, Scale, Study
from whorl.studies.results import CellResult, from_plain


@dataclass(frozen=True)
class Directory:
    """Paths of one study."""

    path: Path

    @property
    def about(self) -> Path:
        return self.path / "study.json"

    def folder(self, cell: Cell) -> Path:
        """Where a cell's commands write."""
        return self.path / "cells" / cell.name

    def log(self, cell: Cell) -> Path:
        return self.path / "cells" / f"{cell.name}.log"

    def _result(self, cell: Cell) -> Path:
        return self.path / "cells" / f"{cell.name}.json"

    def claim(self, study: Study, scale: Scale, engine: str) -> RunLock:
        """Become the one writer of a new folder, or of one of the same study. ``lock.close()`` lets go."""
        wanted = {"study": study.name, "scale": scale, "engine": engine}
        try:
            if self.path.exists() and not self.about.is_file() and any(self.path.iterdir()):
                raise BadInputError(f"{self.path}: is not empty, and holds no study; give another --study-dir")
            (self.path / "cells").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInputError(
                f"{self.path}: cannot make a study's folder: {os_reason(error)}; give another --study-dir"
            ) from error
        try:
            lock = RunLock(self.path / "lock")
        except RunBusyError:
            holder = read_holder(self.path / "lock")
            raise RunBusyError(
                f"{self.path}: a study goes on here (by {holder}); wait for its end, or give another --study-dir"
            ) from None
        try:
            if self.about.is_file() and (found := self._known()) != wanted:
                raise BadInputError(
                    f"{self.path}: holds the study {found.get('study')} at scale {found.get('scale')} on "
                    f"{found.get('engine')}; give another --study-dir"
                )
            write_atomic(self.about, json.dumps(wanted, indent=1).encode() + b"\n")
        except BaseException:
            lock.close()
            raise
        return lock

    def _known(self) -> dict[str, str]:
        try:
            known = json.loads(self.about.read_bytes())
        except ValueError:
            known = None
        if not isinstance(known, dict):
            raise BadInputError(f"{self.about}: cannot be read; give another --study-dir, or delete this file")
        return known

    def load(self, cell: Cell) -> CellResult | None:
        """What it left behind; None where it has not ended, or was another cell under the same name."""
        try:
            result = from_plain(json.loads(self._result(cell).read_bytes()))
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return result if result.cell.plain() == cell.plain() else None

    def keep(self, result: CellResult) -> None:
        """Write it down, whole; then let go of what only a resume would need."""
        write_atomic(self._result(result.cell), json.dumps(result.plain()).encode() + b"\n")
        for checkpoints in self.folder(result.cell).rglob("checkpoints"):
            shutil.rmtree(checkpoints, ignore_errors=True)

    def clear(self, cell: Cell) -> Path:
        """An empty folder for a cell that begins; what a predecessor left half-done goes."""
        self._result(cell).unlink(missing_ok=True)
        shutil.rmtree(self.folder(cell), ignore_errors=True)
        self.folder(cell).mkdir(parents=True)
        self.log(cell).unlink(missing_ok=True)
        return self.folder(cell)
