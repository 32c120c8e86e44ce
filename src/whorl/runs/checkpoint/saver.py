"""Saving while training goes on: one thread per save, at most one at a time."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from whorl.errors import CheckpointError
from whorl.runs.checkpoint.writing import CheckpointMeta, CheckpointWriter, Draft
from whorl.types import Arrays


@dataclass(frozen=True)
class SaveRequest:
    """What to save. The arrays are copies: training overwrites its own meanwhile."""

    update: int
    arrays: Mapping[str, Arrays]
    values: Mapping[str, Any]
    meta: CheckpointMeta
    draft: Draft | None = field(default=None, compare=False)
    """Already begun, where other processes have written parts of it."""


@dataclass(frozen=True)
class SaveOutcome:
    """How a save ended: with a path, or with the error."""

    update: int
    path: Path | None
    error: CheckpointError | None = None


class BackgroundSaver:
    """Submits saves to a thread, and says at the next ``poll`` how they ended. A failed one is counted and never
    becomes the latest; the next interval tries again with newer values."""

    def __init__(self, writer: CheckpointWriter) -> None:
        self._writer = writer
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._outcomes: list[SaveOutcome] = []

    @property
    def busy(self) -> bool:
        """True while a save is under way."""
        return self._thread is not None and self._thread.is_alive()

    def submit(self, request: SaveRequest) -> bool:
        """Start a save; False (and nothing is done) while the one before is still under way."""
        if self.busy:
            return False
        self.wait()
        self._thread = threading.Thread(target=self._save, args=(request,), name="checkpoint", daemon=False)
        self._thread.start()
        return True

    def poll(self) -> list[SaveOutcome]:
        """The saves that have ended since the last call."""
        with self._lock:
            outcomes, self._outcomes = self._outcomes, []
        return outcomes

    def wait(self) -> None:
        """Until no save is under way. May be called again, and from a second signal."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def _save(self, request: SaveRequest) -> None:
        try:
            outcome = SaveOutcome(request.update, save(self._writer, request))
        except CheckpointError as error:
            outcome = SaveOutcome(request.update, None, error)
        except Exception as error:  # an exception lost in a thread would look like a save that never ends
            outcome = SaveOutcome(request.update, None, CheckpointError(f"checkpoint not saved: {error!r}"))
        with self._lock:
            self._outcomes.append(outcome)


def save(writer: CheckpointWriter, request: SaveRequest) -> Path:
    """Save at once, in this thread."""
    draft = request.draft or writer.begin(request.update)
    try:
        for name, arrays in request.arrays.items():
            draft.write_arrays(name, arrays)
        for name, value in request.values.items():
            draft.write_json(name, value)
        return draft.commit(request.meta)
    except BaseException:
        draft.discard()
        raise
