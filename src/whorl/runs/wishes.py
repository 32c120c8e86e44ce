"""What another process asks of a running run, by files in its directory: ``wish-ID.json``, answered in
``answer-ID.json``. Each that asks has files of its own, so that several may at once, and takes them away again.

Files, and not a socket: they work wherever the run directory can be seen, from any node.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

from whorl.errors import BadInputError, WhorlError
from whorl.runs.files import os_reason, write_atomic
from whorl.runs.lock import is_held

LOOK_EVERY_S = 0.5
ANSWER_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Wish:
    """So many actors; or that the run is saved and stops."""

    id: str
    actors: int | None = None
    stop: bool = False


@dataclass(frozen=True)
class Answer:
    """To the wish of this id."""

    id: str
    text: str
    refused: bool = False


def ask(run_dir: Path, actors: int | None = None, *, stop: bool = False, timeout_s: float = ANSWER_TIMEOUT_S) -> str:
    """Wish for so many actors, or for the end, and wait for the answer. ``BadInputError`` where the run refuses."""
    wish = Wish(secrets.token_hex(8), actors, stop)
    asked, answered = run_dir / f"wish-{wish.id}.json", run_dir / f"answer-{wish.id}.json"
    end = time.monotonic() + timeout_s
    try:
        write_atomic(asked, msgspec.json.encode(wish))
        while time.monotonic() < end:
            goes_on = is_held(run_dir / "lock")
            if answered.exists():
                return _text_of(msgspec.json.decode(answered.read_bytes(), type=Answer))
            if not goes_on:
                raise WhorlError(f"{run_dir}: the run has ended and did not answer")
            time.sleep(0.1)
    except OSError as error:
        raise BadInputError(f"{run_dir}: the run cannot be asked: {os_reason(error)}") from error
    finally:
        for path in (asked, answered):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
    raise WhorlError(f"{run_dir}: the run did not answer within {timeout_s:g} s: does it still go on?")


def _text_of(answer: Answer) -> str:
    if answer.refused:
        raise BadInputError(answer.text)
    return answer.text


class WishBox:
    """The run's side."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._looked_at = 0.0
        while self._take() is not None:  # those who wished it were killed meanwhile, as was the run
            pass

    def look(self) -> Wish | None:
        """A wish that has come, once; looks at the disk now and then only."""
        now = time.monotonic()
        if now - self._looked_at < LOOK_EVERY_S:
            return None
        self._looked_at = now
        return self._take()

    def _take(self) -> Wish | None:
        """One that can be read."""
        with contextlib.suppress(OSError):
            for path in sorted(self._run_dir.glob("wish-*.json")):
                with contextlib.suppress(OSError, msgspec.MsgspecError):
                    wish = msgspec.json.decode(path.read_bytes(), type=Wish)
                    path.unlink()
                    return wish
        return None

    def answer(self, wish: Wish, text: str, *, refused: bool = False) -> None:
        """Tell who wished it; where that cannot be written, the run goes on all the same."""
        answer = msgspec.json.encode(Answer(wish.id, text, refused))
        with contextlib.suppress(OSError):
            write_atomic(self._run_dir / f"answer-{Path(wish.id).name}.json", answer)
