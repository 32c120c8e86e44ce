"""How far a study is, and how long it will take: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TextIO

from whorl.runs.console import write_line
from whorl.runs.status import duration
from whorl.studies.contract import Cell
from whorl.studies.results import CellResult


def seconds_left(
    waiting: Sequence[Cell],
    running: Sequence[tuple[Cell, float]],
    done: Sequence[CellResult],
    slots: int,
    usual_s: float | None = None,
) -> float | None:
    """What cells of the same setting took with other seeds, else what cells took on average, else what is usual; None
    where nothing is. ``running`` have run for so long."""
    if not done and usual_s is None:
        return None
    taken: dict[str, list[float]] = {}
    for result in done:
        taken.setdefault(repr(result.cell.labels), []).append(sum(result.seconds))
    average = sum(map(sum, taken.values())) / len(done) if done else usual_s or 0.0
    known = {labels: sum(values) / len(values) for labels, values in taken.items()}
    expected_s = sum(known.get(repr(cell.labels), average) for cell in waiting)
    under_way_s = sum(max(0.0, known.get(repr(cell.labels), average) - so_far) for cell, so_far in running)
    return (expected_s + under_way_s) / slots


class Progress:
    """Silent."""

    def __init__(self, title: str, total: int) -> None:
        self.title, self.total = title, total

    def show(self, done: int, running: Sequence[str], left_s: float | None) -> None:
        """Draw again."""

    def say(self, line: str) -> None:
        """Something has happened."""

    def close(self) -> None:
        """Nothing is drawn any more."""


class Lines(Progress):
    """A line for each cell that has ended."""

    def __init__(self, title: str, total: int, stream: TextIO) -> None:
        super().__init__(title, total)
        self._stream, self._shown = stream, -1
        write_line(stream, title)

    def show(self, done: int, running: Sequence[str], left_s: float | None) -> None:
        if done != self._shown and running:
            self._shown = done
            left = f", about {duration(left_s)} left" if left_s is not None else ""
            write_line(self._stream, f"[{done}/{self.total}{left}] {running[0]}")

    def say(self, line: str) -> None:
        write_line(self._stream, line)


class Bar(Progress):
    """One line, redrawn in place."""

    def __init__(self, title: str, total: int, stream: TextIO) -> None:
        super().__init__(title, total)
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        columns = (
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            TextColumn("[dim]{task.fields[cell]}"),
        )
        # No thread of its own: who forks must not have one.
        self._bar = Progress(*columns, console=Console(file=stream), auto_refresh=False)
        self._task = self._bar.add_task(title, total=total, left="", cell="")
        self._drawn_at = 0.0
        self._bar.start()

    def show(self, done: int, running: Sequence[str], left_s: float | None) -> None:
        left = f"about {duration(left_s)} left" if left_s is not None else "time left unknown"
        if done == self.total:
            left = "done"
        self._bar.update(self._task, completed=done, left=left, cell=", ".join(running)[:48])
        if time.monotonic() - self._drawn_at > 0.5 or not running:
            self._drawn_at = time.monotonic()
            self._bar.refresh()

    def say(self, line: str) -> None:
        self._bar.console.print(line, markup=False, highlight=False)

    def close(self) -> None:
        self._bar.refresh()
        self._bar.stop()


def make_progress(title: str, total: int, quiet: bool, stream: TextIO | None = None) -> Progress:
    """The one that fits."""
    stream = sys.stderr if stream is None else stream
    if quiet or stream is None or stream.closed:
        return Progress(title, total)
    return (Bar if stream.isatty() else Lines)(title, total, stream)
