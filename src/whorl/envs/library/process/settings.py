"""The keyword arguments of ``whorl/Process-v0``, checked."""

from __future__ import annotations

import math
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whorl.envs.library.around import one_of
from whorl.envs.library.process.scratch import KEEP

MODES = ("lines", "files", "rerun")


@dataclass(frozen=True)
class Settings:
    """How to run the program and how long to wait for it. See ``Process`` for what each means."""

    command: tuple[str, ...]
    mode: str
    answer_prefix: str
    action_file: str
    answer_file: str
    template: str
    start_timeout_s: float
    step_timeout_s: float
    exit_timeout_s: float
    max_answer_bytes: int

    @property
    def answers_in_json(self) -> bool:
        return self.mode == "lines" or self.answer_file.endswith(".json")

    def __post_init__(self) -> None:
        one_of("mode", self.mode, MODES)
        for name in ("start_timeout_s", "step_timeout_s", "exit_timeout_s"):
            _check_number(name, getattr(self, name), above=-1e-9 if name == "exit_timeout_s" else 0, most=1e8)
        _check_number("max_answer_bytes", self.max_answer_bytes, above=0, most=2**31)
        for name in ("action_file", "answer_file"):
            given = getattr(self, name)
            if not isinstance(given, str) or Path(given).name != given or given in ("", ".", ".."):
                raise ValueError(f"{name} must be a plain file name, not {given!r}")
        if self.action_file == self.answer_file:
            raise ValueError(f"action_file and answer_file must differ; both are {self.action_file!r}")
        if self.template and not Path(self.template).is_file():
            raise ValueError(f"template: there is no file {self.template}")
        if self.template and self.mode == "lines":
            raise ValueError('template is for mode = "files" and mode = "rerun"')


def read_command(command: Any) -> tuple[str, ...]:
    """The words of a command; a program that is not there is refused.

    Words that name a file from where we are become its full path: the program runs elsewhere. Links stay links: the
    ``python`` of a virtual environment is one.
    """
    words = shlex.split(command) if isinstance(command, str) else command
    if not isinstance(words, list | tuple) or not words or not all(isinstance(word, str) and word for word in words):
        raise ValueError(f'command must be a text or a list of texts, such as ["./solver", "-q"], not {command!r}')
    program, *rest = words
    found = str(Path(program).absolute()) if Path(program).is_file() and "/" in program else shutil.which(program)
    if found is None or shutil.which(found) is None:
        reason = "may not be executed (chmod +x)" if Path(program).is_file() else "is not there"
        raise ValueError(f"command: {program} {reason}; give a path (./{Path(program).name}) or a name on PATH")
    return found, *(str(Path(word).absolute()) if _is_file(word) else word for word in rest)


def read_paths(files: Any) -> tuple[str, ...]:
    """Files and folders to copy into each scratch folder, as full paths."""
    if not isinstance(files, list | tuple) or not all(isinstance(name, str) for name in files):
        raise ValueError(f"files must be a list of paths, not {files!r}")
    for name in files:
        if not Path(name).exists():
            raise ValueError(f"files: there is no {name}")
    return tuple(str(Path(name).resolve()) for name in files)


def check_keep(keep: str, keep_most: Any, scratch_mb: Any) -> None:
    """The policy for scratch folders."""
    one_of("keep", keep, KEEP)
    _check_number("keep_most", keep_most, above=-1, most=1e6)
    _check_number("scratch_mb", scratch_mb, above=0, most=1e9)


def check_metrics(metrics: Any) -> tuple[str, ...]:
    """Names of what an episode's last answer tells."""
    if not isinstance(metrics, Sequence) or isinstance(metrics, str):
        raise ValueError(f"metrics must be a list of names, not {metrics!r}")
    return tuple(metrics)


def _check_number(name: str, value: Any, above: float, most: float) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or not above < value <= most:
        bound = "of at least 0" if above < 0 else "above 0"
        raise ValueError(f"{name} must be a number {bound} and at most {most:g}, not {value!r}")


def _is_file(word: str) -> bool:
    try:
        return Path(word).is_file()
    except (OSError, ValueError):  # too long for a name, or with a null byte: no file
        return False
