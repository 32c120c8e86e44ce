"""Cells as processes: one at a time where time is measured, else one for each core. They end with the study."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from whorl.cluster.allocation import find_allocation, own_share
from whorl.engines.local.nursery import die_with_parent
from whorl.engines.threads import thread_environ
from whorl.runs.status import duration
from whorl.signals import StopSignals
from whorl.studies.contract import Cell, Scale
from whorl.studies.directory import Directory
from whorl.studies.progress import Progress, seconds_left
from whorl.studies.results import CellResult, Taken, read_cell, taken
from whorl.tuning.executor import log_tail

LOOK_EVERY_S = 0.1
END_S = 20.0
"""How long a cell that is asked to end may take; it is then killed."""
ENVIRONMENT = thread_environ(1)
THREADS = " ".join(("export", *(f"{name}={value}" for name, value in ENVIRONMENT.items())))
"""What every command of a cell has in its environment, as people type it."""
LIMITS_S: dict[Scale, float] = {"smoke": 3600.0, "small": 4 * 3600.0, "paper": 7 * 86_400.0}
"""No cell takes longer."""


@dataclass(frozen=True)
class Failure:
    """A cell that went wrong."""

    cell: Cell
    reason: str


@dataclass
class _Running:
    cell: Cell
    folder: Path
    left: list[list[str]]
    """Commands that are still to be run."""
    ended: list[Taken] = field(default_factory=list)
    process: subprocess.Popen[bytes] | None = None
    begun: float = 0.0

    def seconds(self, now: float) -> float:
        """All that it has taken so far."""
        return sum(command.seconds for command in self.ended) + now - self.begun


class Runner:
    """Runs the cells that have no result yet."""

    def __init__(
        self,
        directory: Directory,
        scale: Scale,
        slots: int,
        progress: Progress,
        signals: StopSignals,
        expected_s: float | None = None,
        through: Sequence[str] = (),
        origin: str = "",
    ) -> None:
        """``expected_s`` is what all cells should take; ``through`` is said before trainings (see ``through``);
        ``origin`` is kept with each result."""
        self._directory, self._progress, self._signals = directory, progress, signals
        self._limit_s, self._slots = LIMITS_S[scale], slots
        self._expected_s, self._through, self._origin = expected_s, through, origin
        self.done: list[CellResult] = []
        self.failures: list[Failure] = []
        self._running: list[_Running] = []
        self._usual_s: float | None = None
        """What a cell should take, as long as none of this study has been run."""

    def run(self, cells: Sequence[Cell]) -> None:
        """To the end, or to a signal."""
        found = {cell.name: self._directory.load(cell) for cell in cells}
        self.done = [result for result in found.values() if result is not None]
        waiting = [cell for cell in cells if found[cell.name] is None]
        self._usual_s = None if self._expected_s is None else self._expected_s * self._slots / len(cells)
        if self.done:
            self._progress.say(f"{len(self.done)} of {len(cells)} cells were there already")
        try:
            while (waiting or self._running) and self._signals.received is None:
                while waiting and len(self._running) < self._slots:
                    cell = waiting.pop(0)
                    folder = self._directory.clear(cell)
                    self._running.append(_Running(cell, folder, cell.executable(folder.absolute(), self._through)))
                    self._begin_next(self._running[-1])
                self._look(waiting)
            self._progress.show(len(self.done) + len(self.failures), [], None)
        finally:
            for running in self._running:
                _end(running)

    def _look(self, waiting: Sequence[Cell]) -> None:
        now = time.monotonic()
        running = [(one.cell, one.seconds(now)) for one in self._running]
        left_s = seconds_left(waiting, running, self.done, self._slots, self._usual_s)
        self._progress.show(len(self.done) + len(self.failures), [cell.name for cell, _ in running], left_s)
        time.sleep(LOOK_EVERY_S)
        for one in list(self._running):
            assert one.process is not None
            code = one.process.poll()
            if code is not None:
                self._ended(one, code)
            elif time.monotonic() - one.begun > self._limit_s:
                _end(one)
                self._running.remove(one)
                self._failed(one.cell, f"took longer than {duration(self._limit_s)}")

    def _ended(self, running: _Running, code: int) -> None:
        running.ended.append(taken(running.folder, time.monotonic() - running.begun))
        _end(running)  # whatever it has left behind in its session
        if code == 0 and running.left:
            self._begin_next(running)
            return
        self._running.remove(running)
        if code == 0:
            try:
                result = read_cell(running.cell, running.folder, running.ended, self._origin)
            except (OSError, ValueError) as error:
                self._failed(running.cell, f"left nothing that can be read: {error}")
                return
            self._directory.keep(result)
            self.done.append(result)
            return
        said = log_tail(self._directory.log(running.cell)).removeprefix("whorl: error: ")
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        self._failed(running.cell, f"{how}: {said or 'it said nothing'}")

    def _failed(self, cell: Cell, reason: str) -> None:
        self.failures.append(Failure(cell, reason))
        self._progress.say(f"{cell.name} failed: {reason}")

    def _begin_next(self, running: _Running) -> None:
        environment = {**os.environ, **ENVIRONMENT}
        with self._directory.log(running.cell).open("ab") as log:
            running.begun = time.monotonic()
            running.process = subprocess.Popen(
                running.left.pop(0),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
                preexec_fn=_dies_with(os.getpid()),
            )


def through(scale: Scale) -> tuple[str, ...]:
    """What is said before trainings of paper scale in a job of several nodes, so that they use them all."""
    allocation = find_allocation(system="slurm") if scale == "paper" else None
    return over_nodes(len(allocation.nodes), own_share().cpus) if allocation else ()


def over_nodes(nodes: int, cpus: int) -> tuple[str, ...]:
    """What is said before a training so that it uses so many."""
    return ("slurm", "--nodes", str(nodes), "--cpus-per-node", str(cpus), "--") if nodes > 1 else ()


def _dies_with(parent: int) -> Callable[[], None]:
    return lambda: die_with_parent(parent)


def _end(running: _Running) -> None:
    """Ask, wait, kill; then everything else in its session."""
    process = running.process
    if process is None:
        return
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_S)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
