"""The pieces of a checkpoint that one role writes: those that have not changed are taken over from the one before."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from whorl.errors import CheckpointError
from whorl.runs.checkpoint import DraftParts, attach_draft
from whorl.types import Arrays


class Pieces:
    """Remembers the stamps of what the newest checkpoint holds, and of what was written since."""

    def __init__(self) -> None:
        self._newest: Path | None = None
        self._stamps: dict[str, int] = {}
        """Of the newest checkpoint."""
        self._written: dict[str, int] = {}
        """Of the last draft, which may or may not have become a checkpoint."""

    def loaded(self, pieces: Mapping[str, Arrays], checkpoint: Path) -> None:
        """These are in the checkpoint that the run goes on from."""
        self._newest = checkpoint
        self._stamps |= {name: _stamp(piece) for name, piece in pieces.items()}

    def changed(self, pieces: Mapping[str, Arrays], draft: DraftParts, newest: Path | None) -> dict[str, Arrays]:
        """What must be written (not copied); the rest is taken over from the newest checkpoint."""
        if newest != self._newest:  # the last draft has become a checkpoint
            self._newest, self._stamps = newest, self._written
        self._written = {name: _stamp(piece) for name, piece in pieces.items()}
        return {
            name: piece
            for name, piece in pieces.items()
            if not (newest is not None and self._is_same(name) and draft.take_over(name, newest))
        }

    def write(self, pieces: Mapping[str, Arrays], message: Mapping[str, Any]) -> list[str]:
        """Answer the first learner's message of a draft: write what has changed. Returns the names of all files."""
        if not message["draft"]:
            return []
        draft = attach_draft(Path(message["draft"]))
        newest = Path(message["newest"]) if message["newest"] else None
        with contextlib.suppress(CheckpointError):  # the first learner misses the part and reports the failure
            for name, piece in self.changed(pieces, draft, newest).items():
                draft.write_arrays(name, piece)
        return [f"{name}.safetensors" for name in pieces]

    def _is_same(self, name: str) -> bool:
        return self._written[name] >= 0 and self._stamps.get(name) == self._written[name]


def _stamp(piece: Arrays) -> int:
    return int(piece["stamp"]) if "stamp" in piece else -1
