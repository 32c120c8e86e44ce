"""The run directory: where everything a run leaves behind lives.

runs/ppo-CartPole-v1-1/
    config.toml      fully resolved; training from it reproduces the run
    metrics.jsonl    one line per update
    checkpoints/     update-000000123/ and so on
    logs/            one file per role
    result.json      at the end
    lock             who writes here, and the fencing token
    job/             of the batch job that it runs in, where there is one: its script, and how its nodes meet
    wish-ID.json, answer-ID.json    what another process asks of the run (whorl resize)
"""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from whorl.errors import BadInputError
from whorl.runs.checkpoint.reading import newest_token
from whorl.runs.files import file_safe, os_reason, write_atomic
from whorl.runs.lock import RunLock, is_held

Made = TypeVar("Made")


@dataclass(frozen=True)
class RunDirectory:
    """Paths of one run. Opening one reads; only ``lock`` and the ``write_`` methods write."""

    path: Path

    @property
    def config(self) -> Path:
        return self.path / "config.toml"

    @property
    def env(self) -> Path:
        """What the environment is: its spaces."""
        return self.path / "env.json"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def result(self) -> Path:
        return self.path / "result.json"

    @classmethod
    def create(cls, path: Path | str | None, agent: str, env: str, root: Path | str = "runs") -> RunDirectory:
        """A new run directory: at ``path``, or numbered below ``root``. Nothing is ever overwritten."""
        try:
            _check_is_text(root if path is None else path)
            if path is not None:
                return cls._create_at(Path(path))
            return cls._create_numbered(Path(root), f"{file_safe(agent)}-{file_safe(env)}", cls._create_at)
        except (OSError, ValueError) as error:
            where = root if path is None else path
            raise BadInputError(
                f"{where}: cannot make a run directory: {os_reason(error)}; give another --run-dir"
            ) from error

    @classmethod
    def _create_at(cls, path: Path) -> RunDirectory:
        if path.exists() and not path.is_dir():
            raise BadInputError(f"{path}: a file is in the way; give another --run-dir")
        path.mkdir(parents=True, exist_ok=True)
        if not is_vacant(path):
            raise _occupied(path)
        try:
            # Of two runs that start at once, the one that makes this subdirectory has the place.
            (path / "checkpoints").mkdir()
        except FileExistsError:
            raise _occupied(path) from None
        (path / "logs").mkdir(exist_ok=True)
        return cls(path)

    @classmethod
    def reserve(cls, path: Path | str | None, agent: str, env: str, root: Path | str = "runs") -> Path:
        """A place for a run that a batch job will begin later: a directory with nothing but ``job`` and ``logs``."""
        try:
            _check_is_text(root if path is None else path)
            if path is None:
                return cls._create_numbered(Path(root), f"{file_safe(agent)}-{file_safe(env)}", furnish)
            if Path(path).exists() and not (Path(path).is_dir() and is_vacant(Path(path))):
                raise _occupied(Path(path))
            return furnish(Path(path))
        except (OSError, ValueError) as error:
            raise BadInputError(f"{path or root}: cannot make a run directory: {os_reason(error)}") from error

    @classmethod
    def free_place(cls, path: Path | str | None, agent: str, env: str, root: Path | str = "runs") -> Path:
        """Where ``reserve`` would make one now. Makes nothing."""
        _check_is_text(root if path is None else path)
        if path is None:
            stem = f"{file_safe(agent)}-{file_safe(env)}"
            return Path(root) / f"{stem}-{_next_number(Path(root), stem)}"
        if Path(path).exists() and not (Path(path).is_dir() and is_vacant(Path(path))):
            raise _occupied(Path(path))
        return Path(path)

    @classmethod
    def _create_numbered(cls, root: Path, stem: str, make: Callable[[Path], Made]) -> Made:
        root.mkdir(parents=True, exist_ok=True)
        number = _next_number(root, stem)
        while True:
            path = root / f"{stem}-{number}"
            try:
                path.mkdir()
            except FileExistsError:
                number += 1
                continue
            return make(path)

    @classmethod
    def open(cls, path: Path | str) -> RunDirectory:
        """An existing run directory, which may be moved, copied or read-only."""
        path = Path(path)
        try:
            path.stat()
            _check_is_text(path)
        except (FileNotFoundError, NotADirectoryError):
            raise BadInputError(f"{path}: no such run directory{_suggestion(path)}") from None
        except (OSError, ValueError) as error:
            raise BadInputError(f"{path}: cannot be opened: {os_reason(error)}") from error
        if not path.is_dir():
            raise BadInputError(f"{path}: not a run directory but a file{_hint_of_parent(path)}")
        if not (path / "config.toml").is_file():
            raise BadInputError(f"{path}: not a run directory (it holds no config.toml){_suggestion(path / 'x')}")
        return cls(path)

    def lock(self) -> RunLock:
        """Become the one writer. ``RunBusyError`` names who is."""
        return RunLock(self.path / "lock", least_token=newest_token(self.checkpoints))

    def is_busy(self) -> bool:
        """Whether a run goes on here."""
        return is_held(self.path / "lock")

    def write_config(self, toml: str) -> None:
        """The resolved configuration, once, before the run starts."""
        write_atomic(self.config, toml.encode())


def _next_number(root: Path, stem: str) -> int:
    names = [entry.name for entry in root.iterdir()] if root.is_dir() else []
    taken = (re.fullmatch(re.escape(stem) + r"-(\d{1,9})", name) for name in names)
    return 1 + max((int(match[1]) for match in taken if match), default=0)


def give_back(path: Path) -> None:
    """Remove a place that was reserved for a job that is not to be."""
    with contextlib.suppress(OSError):
        for name in ("job.sh", "node.sh"):
            (path / "job" / name).unlink(missing_ok=True)
        for folder in (path / "job", path / "logs", path):
            folder.rmdir()  # only when it is empty


def furnish(path: Path) -> Path:
    """Make what the script of a batch job needs before it begins."""
    for name in ("logs", "job"):
        (path / name).mkdir(parents=True, exist_ok=True)
    (path / "job").chmod(0o700)
    return path


def is_vacant(path: Path) -> bool:
    """Empty, or kept for this very run (or study) by a batch job that is about to begin it."""
    names = {entry.name for entry in path.iterdir()}
    return not names or ("job" in names and names <= {"job", "logs"})


def clear_unbegun(path: Path) -> None:
    """A job that was ended between making the directory and writing down what to run has left nothing to go on with:
    its empty folders would only be in the way."""
    with contextlib.suppress(OSError):
        if not (path / "config.toml").exists() and not is_held(path / "lock"):
            (path / "checkpoints").rmdir()
            (path / "lock").unlink(missing_ok=True)


def _check_is_text(path: Path | str) -> None:
    """A run directory is named in messages between processes, and in files, as UTF-8."""
    absolute = str(Path(path).absolute())
    try:
        absolute.encode()
    except UnicodeEncodeError:
        readable = absolute.encode(errors="backslashreplace").decode()
        raise BadInputError(
            f"{readable}: the path of a run directory must be UTF-8, and this is not; rename it, or give another "
            "--run-dir"
        ) from None


def _occupied(path: Path) -> BadInputError:
    if (path / "config.toml").is_file():
        return BadInputError(
            f"{path}: holds a run already; `whorl resume {path}` goes on with it, or give another --run-dir"
        )
    return BadInputError(f"{path}: is not empty, and nothing is ever overwritten; give another --run-dir")


def _suggestion(path: Path) -> str:
    """``; did you mean ...?`` among the runs beside the missing path."""
    try:
        siblings = sorted(entry.parent.name for entry in path.parent.glob("*/config.toml"))
    except OSError:
        return ""
    close = difflib.get_close_matches(path.name, siblings, n=1)
    if close:
        return f"; did you mean {path.parent / close[0]}?"
    if siblings:
        return f"; there are: {', '.join(str(path.parent / name) for name in siblings[-5:])}"
    return ""


def _hint_of_parent(path: Path) -> str:
    return f"; did you mean {path.parent}?" if (path.parent / "config.toml").is_file() else ""
