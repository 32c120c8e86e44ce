"""Small training runs through the public commands, in processes that can be struck from outside."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from accounts import check_account
from whorl.runs.result import Result

SOURCE = Path(__file__).parents[2] / "src"

SIZE = ("--steps", "6000", "--actors", "2", "--envs-per-actor", "4")
SMALL = (*SIZE, "--set", "agent.rows=32", "--set", "agent.epochs=2", "--set", "run.checkpoint_every_s=0")
LOCAL = (*SMALL, "--engine", "local")
"""About 25 updates of 8 environments times 32 rows, a checkpoint after each."""

TRAIN = ("train", "ppo", "CartPole-v1")

TIME_LIMIT_S = 60.0

AGENTS = {
    "sync": "ppo",
    "overlap": "ppo",
    "async": "impala",
    "window": "impala",
    "queue": "impala",
    "seed": "impala",
    "replay": "apex",
    "gradients": "a3c",
    "allreduce": "ddppo",
}
"""Every workflow, and who runs in it."""


def also_long(*choices: object) -> list[Any]:
    """Parameters for `make verify` only: more of the same kind, a few seconds each."""
    return [pytest.param(choice, marks=pytest.mark.verify) for choice in choices]


def settings_of(engine: str) -> dict[str, Any]:
    """The same as keywords of ``whorl.train`` and ``whorl.Trainer``."""
    settings = {"agent.rows": 32, "agent.epochs": 2, "run.checkpoint_every_s": 0.0}
    return {"engine": engine, "steps": 6000, "actors": 2, "envs_per_actor": 4, "set": settings}


def kwargs_of_env(**kwargs: object) -> list[str]:
    """``--set env.kwargs.NAME=VALUE`` for each."""
    return [word for name, value in kwargs.items() for word in ("--set", f"env.kwargs.{name}={value}")]


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """The one line on standard error."""
        assert self.err.startswith("whorl: "), self.err
        assert self.err.count("\n") == 1, self.err
        return self.err.strip()

    @property
    def warnings(self) -> list[str]:
        return [line for line in self.out.splitlines() if line.startswith("warning: ")]


class Command:
    """A ``whorl`` command in a process (and a process group) of its own. Leaving the context ends it."""

    def __init__(self, *arguments: str | Path, environ: Mapping[str, str] | None = None, prefix: tuple[str, ...] = ()):
        self._process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "whorl", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(SOURCE), **(environ or {})},
            start_new_session=True,
        )
        self.pid = self._process.pid

    def ended(self, timeout_s: float = TIME_LIMIT_S) -> Ended:
        """Wait for its end."""
        out, err = self._process.communicate(timeout=timeout_s)
        return Ended(self._process.returncode, out, err)

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def role(self, name: str) -> int:
        """The pid of a role's process, as soon as there is one."""
        return until(lambda: self.roles().get(name), f"{name} to start")

    def roles(self) -> dict[str, int]:
        """The pids of the roles there are."""
        return role_pids(self.pid)

    def __enter__(self) -> Command:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


def whorl(*arguments: str | Path, environ: Mapping[str, str] | None = None, prefix: tuple[str, ...] = ()) -> Ended:
    """Run a command to its end."""
    with Command(*arguments, environ=environ, prefix=prefix) as command:
        return command.ended()


def until(condition: Callable[[], Any], what: str, timeout_s: float = 30.0) -> Any:
    """Wait for something true; returns it."""
    end = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < end, f"waited {timeout_s} s for {what}"
        time.sleep(0.005)
    return found


def role_pids(driver: int) -> dict[str, int]:
    """Roles by name: they are the grandchildren of a driver, and each carries its name."""
    found = {}
    for nursery in _children(driver):
        for pid in _children(nursery):
            with contextlib.suppress(OSError):
                found[Path(f"/proc/{pid}/comm").read_text().strip()] = pid
    return found


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        tasks = Path(f"/proc/{pid}/task").iterdir()
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    return []


def updates_saved(run_dir: Path) -> list[int]:
    """The updates of the checkpoints there are, in order."""
    names = [path.name for path in (run_dir / "checkpoints").glob("update-*")]
    return sorted(int(name.removeprefix("update-").partition(".")[0]) for name in names)


def saved(run_dir: Path, update: int) -> None:
    """Wait for a checkpoint of this update or a later one."""
    until(lambda: (run_dir / "checkpoints").is_dir() and max(updates_saved(run_dir), default=-1) >= update, "a save")


def result_of(run_dir: Path) -> dict[str, Any]:
    """``result.json``, after seeing that its transitions add up."""
    result: dict[str, Any] = json.loads((run_dir / "result.json").read_text())
    check_account(run_dir)
    return result


def metric_updates(run_dir: Path) -> list[int]:
    """The updates that have a line in ``metrics.jsonl``."""
    return [json.loads(line)["update"] for line in (run_dir / "metrics.jsonl").read_text().splitlines()]


@dataclass(frozen=True)
class Trained:
    """Compares runs with the undisturbed one."""

    references: Mapping[str, Result]

    def __call__(self, run_dir: Path, workflow: str = "sync") -> dict[str, Any]:
        """The run was completed, has exactly the reference's weights, and no update twice in its metrics."""
        result, reference = result_of(run_dir), self.references[workflow]
        assert (result["status"], result["exact"], result["updates"]) == ("completed", True, reference.updates)
        assert result["weights_sha256"] == reference.weights_sha256
        updates = metric_updates(run_dir)
        assert updates == sorted(set(updates))
        assert updates[-1] == reference.updates
        assert not list((run_dir / "checkpoints").glob(".tmp-*"))
        return result


@contextlib.contextmanager
def mounted(path: Path, options: str) -> Iterator[Path]:
    """A file system of its own, in memory."""
    path.mkdir(exist_ok=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below, with its content."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
