"""What people see of a study while it goes on: a table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TextIO

from whorl.runs.console import write_line
from whorl.runs.status import counted, duration, number, one_line

_STYLES = {"running": "cyan", "done": "green", "pruned": "yellow", "failed": "red", "preempted": "yellow"}
MOST_ROWS = 24
EVERY_S = 0.5
PLAIN_EVERY_S = 30.0


@dataclass(frozen=True)
class TrialRow:
    """One trial, for people."""

    number: int
    state: str
    labels: Mapping[str, Any]
    env_steps: int = 0
    score: float | None = None
    error: str = ""
    seconds: float | None = None

    @property
    def values(self) -> str:
        """``learning_rate 0.0012, epochs 4``."""
        return values_text(self.labels)


def values_text(labels: Mapping[str, Any]) -> str:
    """Settings and values in few words."""
    return ", ".join(f"{short_name(name)} {_short(value)}" for name, value in labels.items())


def short_name(name: str) -> str:
    """The last word of a dotted name; ``env`` for ``env.id``."""
    return "env" if name == "env.id" else name.rpartition(".")[2]


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else one_line(str(value), 40)


class StudyTable:
    """Silent: keeps the rows, says nothing."""

    def __init__(self, title: str, total: int) -> None:
        self.title, self.total = title, total
        self.rows: dict[int, TrialRow] = {}

    def put(self, row: TrialRow) -> None:
        """The newest of a trial."""
        self.rows[row.number] = row

    def say(self, line: str) -> None:
        """Something has happened."""

    def show(self) -> None:
        """Draw again, when that is due."""

    def close(self) -> None:
        """Nothing is drawn any more."""

    def counts(self) -> str:
        """``3 done, 2 running, 1 failed of 20``."""
        states = [row.state for row in self.rows.values()]
        known = [f"{states.count(state)} {state}" for state in _STYLES if state in states]
        return f"{', '.join(known) or 'none begun'}, of {counted(self.total, 'trial')}"


class PlainTable(StudyTable):
    """A line for each event, and now and then how far it is."""

    def __init__(self, title: str, total: int, stream: TextIO) -> None:
        super().__init__(title, total)
        self._stream = stream
        self._shown_at = time.monotonic()
        write_line(stream, title)

    def say(self, line: str) -> None:
        write_line(self._stream, line)

    def show(self) -> None:
        if time.monotonic() - self._shown_at >= PLAIN_EVERY_S:
            self._shown_at = time.monotonic()
            write_line(self._stream, self.counts())


class LiveTable(StudyTable):
    """Redrawn in place."""

    def __init__(self, title: str, total: int, stream: TextIO) -> None:
        super().__init__(title, total)
        from rich.console import Console
        from rich.live import Live

        self._rich = Console(file=stream)
        self._live: Live | None = Live(console=self._rich, auto_refresh=False, transient=False)
        self._shown_at = 0.0

    def show(self) -> None:
        if time.monotonic() - self._shown_at >= EVERY_S:
            self._draw()

    def close(self) -> None:
        if self._live is not None:
            self._draw()
            live, self._live = self._live, None
            with contextlib.suppress(OSError, ValueError):
                live.stop()

    def _draw(self) -> None:
        if self._live is None:
            return
        self._shown_at = time.monotonic()
        with contextlib.suppress(OSError, ValueError):
            if not self._live.is_started:
                self._live.start()
            self._live.update(draw_table(self), refresh=True)


def draw_table(study: StudyTable) -> Any:
    """The newest trials as a table of rich."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=study.title, caption=study.counts(), title_style="bold", expand=False)
    names = list(dict.fromkeys(name for row in study.rows.values() for name in row.labels))
    table.add_column("trial", justify="right")
    table.add_column("state")
    for name in names:
        table.add_column(short_name(name), justify="right")
    for title in ("env steps", "score", "time"):
        table.add_column(title, justify="right")
    rows = sorted(study.rows.values(), key=lambda row: (row.state != "running", -row.number))[:MOST_ROWS]
    for row in sorted(rows, key=lambda row: row.number):
        table.add_row(
            str(row.number),
            Text(row.state, style=_STYLES.get(row.state, "")),
            *(_short(row.labels.get(name, "")) for name in names),
            f"{row.env_steps:,}" if row.env_steps else "",
            "" if row.score is None else number(row.score),
            "" if row.seconds is None else duration(row.seconds),
        )
    return table


def make_table(title: str, total: int, quiet: bool, stream: TextIO | None = None) -> StudyTable:
    """The one that fits."""
    stream = sys.stdout if stream is None else stream
    if quiet or stream is None or stream.closed:
        return StudyTable(title, total)
    return (LiveTable if stream.isatty() else PlainTable)(title, total, stream)
