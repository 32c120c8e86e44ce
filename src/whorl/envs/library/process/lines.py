"""Talking in lines of JSON: one line to the program, one line back."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from whorl.envs.library.process.guard import Guard
from whorl.envs.library.process.program import Program
from whorl.envs.library.process.settings import Settings

Answer = dict[str, Any]
_SHOWN_BYTES = 60


class LinesTalk:
    """One episode with a program that runs for as long as the episode does."""

    def __init__(self, settings: Settings, guard: Guard, watch: Callable[[], None]) -> None:
        self._settings, self._guard, self._watch = settings, guard, watch
        self._program: Program | None = None

    def begin(self, folder: Path, seed: int, episode: int) -> Answer:
        """Start the program and tell it the seed; its first answer."""
        self._program = Program(self._settings.command, folder, {}, self._guard, talks=True, watch=self._watch)
        return self._ask({"seed": seed, "episode": episode}, self._settings.start_timeout_s)

    def step(self, action: Any) -> Answer:
        """Its answer to an action."""
        return self._ask({"action": action}, self._settings.step_timeout_s)

    def say_goodbye(self) -> None:
        """The episode is over: it may end by itself from now on."""
        if self._program is not None:
            self._program.say_goodbye()

    def end(self, in_order: bool) -> str:
        """End the program, with a moment's grace if all was in order; its last words."""
        program, self._program = self._program, None
        if program is None:
            return ""
        program.end(self._settings.exit_timeout_s if in_order else 0.0)
        return program.last_words()

    def _ask(self, message: dict[str, Any], timeout_s: float) -> Answer:
        program = self._program
        assert program is not None
        prefix = self._settings.answer_prefix.encode()
        if not prefix and program.has_said_more():
            raise program.failure("answered twice, or before it was asked")
        deadline_s = time.monotonic() + timeout_s
        program.send(json.dumps(message, separators=(",", ":")).encode() + b"\n", deadline_s)
        line = program.read_line(deadline_s, self._settings.max_answer_bytes)
        while not line.startswith(prefix):
            line = program.read_line(deadline_s, self._settings.max_answer_bytes)
        try:
            answer = json.loads(line[len(prefix) :])
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise program.failure(f"answered with something that is no JSON object: {_excerpt(line)}")
        return answer


def _excerpt(line: bytes) -> str:
    text = line[:_SHOWN_BYTES].decode(errors="backslashreplace")
    return f"{text!r}" + ("..." if len(line) > _SHOWN_BYTES else "")
