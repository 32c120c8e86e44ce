"""Talking in files, for codes that can do nothing else.

Ours appear whole: they are written under another name and renamed. Theirs are read once they are whole: JSON up to its
last brace, or all the numbers that are expected and the end of their line. Until then there is nothing to read.
"""

from __future__ import annotations

import contextlib
import json
import re
import string
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from whorl.envs.library.process.guard import Guard
from whorl.envs.library.process.lines import Answer
from whorl.envs.library.process.program import Program, ProgramFailed
from whorl.envs.library.process.settings import Settings

NUMBERS_BEFORE = 3
"""In a file of plain numbers: reward, terminated and truncated come before the observation."""


class FilesTalk:
    """One episode in files. The program runs as long as the episode (``files``) or anew for each step (``rerun``)."""

    def __init__(self, settings: Settings, guard: Guard, watch: Callable[[], None], observation_size: int) -> None:
        self._settings, self._guard, self._watch = settings, guard, watch
        self._is_json = settings.answers_in_json
        self._count = NUMBERS_BEFORE + observation_size
        self._program: Program | None = None
        self._folder = Path()
        self._seed, self._episode, self._steps = 0, 0, 0
        self._words = ""

    def begin(self, folder: Path, seed: int, episode: int) -> Answer:
        """Write the first file, without an action, and start the program; its first answer."""
        self._folder, self._seed, self._episode, self._steps = folder, seed, episode, 0
        return self._exchange(None, self._settings.start_timeout_s)

    def step(self, action: Any) -> Answer:
        """Its answer to an action."""
        self._steps += 1
        return self._exchange(action, self._settings.step_timeout_s)

    def say_goodbye(self) -> None:
        """The episode is over: a file called ``end`` tells a program that watches for one."""
        with contextlib.suppress(OSError):
            (self._folder / "end").touch()

    def end(self, in_order: bool) -> str:
        """End the program, with a moment's grace if all was in order; its last words."""
        program, self._program = self._program, None
        if program is not None:
            program.end(self._settings.exit_timeout_s if in_order else 0.0)
            self._words = program.last_words()
        return self._words

    def _exchange(self, action: Any, timeout_s: float) -> Answer:
        deadline_s = time.monotonic() + timeout_s
        answer_path = self._folder / self._settings.answer_file
        answer_path.unlink(missing_ok=True)
        self._write_action(action)
        if self._program is None:
            environment = {"WHORL_STEP": str(self._steps), "WHORL_SEED": str(self._seed)}
            command = self._settings.command
            self._program = Program(command, self._folder, environment, self._guard, talks=False, watch=self._watch)
        program = self._program
        answer: Answer | None = None

        def is_there() -> bool:
            nonlocal answer
            answer = self._read(answer_path)
            return answer is not None

        if self._settings.mode == "files":
            program.wait(deadline_s, is_there, f"did not write a whole {answer_path.name}")
        else:
            program.wait_for_success(deadline_s)
            if not is_there():
                raise program.failure(f"ended without writing a whole {answer_path.name}")
            self.end(in_order=False)
        assert answer is not None
        return answer

    def _write_action(self, action: Any) -> None:
        told = {"seed": self._seed, "episode": self._episode, "step": self._steps, "action": action}
        if self._settings.template:
            template = string.Template(Path(self._settings.template).read_text())
            text = template.safe_substitute(_words(told))
        else:
            text = json.dumps(told) + "\n"
        unfinished = self._folder / f".{self._settings.action_file}.unfinished"
        unfinished.write_text(text)
        unfinished.rename(self._folder / self._settings.action_file)

    def _read(self, path: Path) -> Answer | None:
        """What the file says, or None while it is not whole."""
        try:
            with path.open("rb") as file:
                content = file.read(self._settings.max_answer_bytes + 1)
        except OSError:
            return None
        if len(content) > self._settings.max_answer_bytes:
            raise ProgramFailed(f"the program wrote more than {self._settings.max_answer_bytes} bytes to {path.name}")
        try:
            answer = json.loads(content) if self._is_json else self._numbers(content)
        except (ValueError, RecursionError):
            return None
        return answer if isinstance(answer, dict) else None

    def _numbers(self, content: bytes) -> Answer | None:
        words = content.replace(b",", b" ").split()
        if len(words) < self._count or not content.endswith(b"\n"):
            return None
        if len(words) > self._count:
            raise ProgramFailed(f"the program wrote {len(words)} numbers; expected {self._count}")
        reward, terminated, truncated, *observation = (_number(word) for word in words)
        return {
            "reward": reward,
            "terminated": bool(terminated),
            "truncated": bool(truncated),
            "observation": observation,
        }


def _words(told: dict[str, Any]) -> dict[str, str]:
    """What a template may name: seed, episode, step, action (all of it), action_0, action_1, ..."""
    numbers = [] if told["action"] is None else np.ravel(np.asarray(told["action"])).tolist()
    named = {f"action_{index}": repr(number) for index, number in enumerate(numbers)}
    plain = {name: str(told[name]) for name in ("seed", "episode", "step")}
    return {**plain, **named, "action": " ".join(map(repr, numbers))}


def _number(word: bytes) -> float:
    """A number as C and Fortran write them: 1.5, 1.5D+00, and 1.5-100, without room for the letter."""
    text = word.decode("ascii", errors="replace").lower().replace("d", "e")
    return float(re.sub(r"(?<=[\d.])([+-]\d{3})$", r"e\1", text))
