"""What another process asks of a running run, by files in its directory: ``wish.json``, answered in ``answer.json``.

Files, and not a socket: they work wherever the run directory can be seen, from any node.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

from whorl.errors import BadInputError, WhorlError
from whorl.runs.files import write_atomic

LOOK_EVERY_S = 0.5
ANSWER_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Wish:
    """So many actors."""

    id: str
    actors: int


@dataclass(frozen=True)
class Answer:
    """To the wish of this id."""

    id: str
    text: str
    refused: bool = False


def ask(run_dir: Path, actors: int, timeout_s: float = ANSWER_TIMEOUT_S) -> str:
    """Wish for so many actors, and wait for the answer. ``BadInputError`` where the run refuses."""
    wish = Wish(secrets.token_hex(8), actors)
    write_atomic(run_dir / "wish.json", msgspec.json.encode(wish))
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        try:
            answer = msgspec.json.decode((run_dir / "answer.json").read_bytes(), type=Answer)
        except (OSError, msgspec.MsgspecError):
            answer = None
        if answer is not None and answer.id == wish.id:
            if answer.refused:
                raise BadInputError(answer.text)
            return answer.text
        time.sleep(0.1)
    (run_dir / "wish.json").unlink(missing_ok=True)
    raise WhorlError(f"{run_dir}: the run did not answer within {timeout_s:g} s: does it still go on?")


class WishBox:
    """The run's side."""

    def __init__(self, run_dir: Path) -> None:
        self._path, self._answers = run_dir / "wish.json", run_dir / "answer.json"
        self._looked_at = 0.0

    def look(self) -> Wish | None:
        """A wish that has come, once; looks at the disk now and then only."""
        now = time.monotonic()
        if now - self._looked_at < LOOK_EVERY_S:
            return None
        self._looked_at = now
        try:
            wish = msgspec.json.decode(self._path.read_bytes(), type=Wish)
            self._path.unlink()
        except (OSError, msgspec.MsgspecError):
            return None
        return wish

    def answer(self, wish: Wish, text: str, *, refused: bool = False) -> None:
        """Tell who wished it."""
        write_atomic(self._answers, msgspec.json.encode(Answer(wish.id, text, refused)))
