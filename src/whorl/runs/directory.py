"""The run directory: where everything a run leaves behind lives.

runs/ppo-CartPole-v1-1/
    config.toml      fully resolved; training from it reproduces the run
    metrics.jsonl    one line per update
    checkpoints/     update-000000123/ and so on
    logs/            one file per role
    result.json      at the end
    lock             who writes here, and the fencing token
    wish-ID.json, answer-ID.json    what another process asks of the run (whorl resize)
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path

from whorl.errors import BadInputError
from whorl.runs.checkpoint.reading import newest_token
from whorl.runs.files import file_safe, os_reason, write_atomic
from whorl.runs.lock import RunLock, is_held


@dataclass(frozen=True)
class RunDirectory:
    """Paths of one run. Opening one reads; only ``lock`` and the ``write_`` methods write."""

    path: Path

    @property
    def config(self) -> Path:
        return self.path / "config.toml"

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
            if path is not None:
                return cls._create_at(Path(path))
            return cls._create_numbered(Path(root), f"{file_safe(agent)}-{file_safe(env)}")
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
        if any(path.iterdir()):
            raise _occupied(path)
        try:
            # Of two runs that start at once, the one that makes this subdirectory has the place.
            (path / "checkpoints").mkdir()
        except FileExistsError:
            raise _occupied(path) from None
        (path / "logs").mkdir()
        return cls(path)

    @classmethod
    def _create_numbered(cls, root: Path, stem: str) -> RunDirectory:
        root.mkdir(parents=True, exist_ok=True)
        taken = (re.fullmatch(re.escape(stem) + r"-(\d{1,9})", entry.name) for entry in root.iterdir())
        number = 1 + max((int(match[1]) for match in taken if match), default=0)
        while True:
            path = root / f"{stem}-{number}"
            try:
                path.mkdir()
            except FileExistsError:
                number += 1
                continue
            return cls._create_at(path)

    @classmethod
    def open(cls, path: Path | str) -> RunDirectory:
        """An existing run directory, which may be moved, copied or read-only."""
        path = Path(path)
        try:
            path.stat()
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
