"""The live panel on a terminal. The only module that imports rich."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from rich.box import ASCII, ROUNDED
from rich.console import Console as RichConsole
from rich.console import Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from whorl.runs.bottleneck import bottleneck
from whorl.runs.console import can_draw, summary_lines, write_line
from whorl.runs.drawing import bar, sparkline
from whorl.runs.result import Result
from whorl.runs.status import RunStatus, counted, duration, number, one_line, rate

_PHASE_STYLE = {
    "learning": "magenta",
    "environment": "green",
    "inference": "cyan",
    "transfer": "yellow",
    "waiting": "bright_black",
    "other": "bright_black",
}


class LiveConsole:
    """Redraws one panel in place, from the caller's thread and at most 4 times a second."""

    every_s = 0.25

    def __init__(self, stream: TextIO, console: RichConsole | None = None) -> None:
        self._stream = stream
        self._ascii_only = not can_draw(stream)
        self._rich = console or RichConsole(file=stream)
        # No refresh thread: it would take the interpreter from the training thread at its own times.
        self._live: Live | None = Live(console=self._rich, auto_refresh=False, transient=True)
        self._shown_at = float("-inf")

    def update(self, status: RunStatus) -> None:
        """Redraw, when the last drawing is old enough."""
        now = time.monotonic()
        if now - self._shown_at < self.every_s or self._live is None:
            return
        self._shown_at = now
        with contextlib.suppress(OSError, ValueError):
            if not self._live.is_started:
                self._live.start()
            self._live.update(draw_panel(status, self._ascii_only), refresh=True)

    def say(self, lines: Sequence[str]) -> None:
        """Above the panel."""
        for line in lines:
            write_line(self._stream, line)

    def finish(self, status: RunStatus, result: Result, path: Path) -> None:
        """Leave the last panel standing, and the summary below it."""
        self.close()
        with contextlib.suppress(OSError, ValueError):
            self._rich.print(draw_panel(status, self._ascii_only))
        for line in summary_lines(status, result, path, self._ascii_only):
            write_line(self._stream, line)

    def close(self) -> None:
        """Take the live panel off the screen and show the cursor again."""
        if self._live is not None:
            live, self._live = self._live, None
            with contextlib.suppress(OSError, ValueError):
                live.stop()


def draw_panel(status: RunStatus, ascii_only: bool = False) -> Panel:
    """A snapshot as a panel."""
    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="bold", no_wrap=True)
    rows.add_column(ratio=1)
    rows.add_row("progress", _progress(status, ascii_only))
    rows.add_row("speed", _speed(status))
    rows.add_row("return", _returns(status, ascii_only))
    for kind, shares in status.time_share.items():
        rows.add_row(one_line(kind, 12), _shares(shares, ascii_only))
    rows.add_row("run", _health(status))
    below = []
    if status.time_share:
        below.append(Text(f"bottleneck: {bottleneck(status.time_share, status.workflow)}", style="italic"))
    below += [Text(f"note: {one_line(note)}") for note in status.notes[-2:]]
    below += [Text(f"warning: {one_line(warning)}", style="yellow") for warning in status.warnings[-3:]]
    words = [status.workflow, status.engine, "exact" if status.exact else "not exact"]
    title = Text(f" {one_line(status.agent, 30)} on {one_line(status.env, 60)} ", style="bold")
    return Panel(
        Group(rows, *below),
        title=title,
        subtitle=Text(f" {', '.join(one_line(word, 20) for word in words if word)} ", style="bright_black"),
        border_style="blue",
        box=ASCII if ascii_only else ROUNDED,
    )


def _progress(status: RunStatus, ascii_only: bool) -> Text:
    text = Text(bar(status.fraction, 24, ascii_only), style="blue")
    text.append(f" {100 * status.fraction:3.0f} %", style="bold default")
    text.append(f"  {status.env_steps:,} of {status.total_env_steps:,} env steps", style="default")
    return text


def _speed(status: RunStatus) -> Text:
    text = Text(f"{rate(status.env_steps_per_s)} env steps/s   {rate(status.updates_per_s)} updates/s")
    text.append(f"   {duration(status.elapsed_s)}", style="bright_black")
    if 0 < status.remaining_s < math.inf:
        text.append(f", {duration(status.remaining_s)} left", style="bright_black")
    if status.phase:
        text.append(f"   {one_line(status.phase, 60)}", style="yellow")
    return text


def _returns(status: RunStatus, ascii_only: bool) -> Text:
    text = Text(number(status.return_mean), style="bold green")
    line = sparkline([value for _, value in status.return_history], 24, ascii_only)
    text.append(f"  {line}  " if line else "  ", style="green")
    text.append(f"best {number(status.return_best)}   {status.episodes:,} episodes", style="default")
    return text


def _shares(shares: dict[str, float], ascii_only: bool) -> Text:
    """The parts of a role's time, largest first, each with a small bar."""
    text = Text()
    for phase, share in sorted(shares.items(), key=lambda item: -item[1])[:3]:
        if share >= 0.005:
            text.append(f"{bar(share, 6, ascii_only)} ", style=_PHASE_STYLE.get(phase, "default"))
            text.append(f"{one_line(phase, 12)} {100 * share:.0f} %   ", style="default")
    return text


def _health(status: RunStatus) -> Text:
    text = Text(f"{status.updates:,} updates   staleness {status.staleness_mean:.1f}, max {status.staleness_max}")
    text.append(f"   {counted(status.restarts, 'restart')}", style="yellow" if status.restarts else "default")
    if status.checkpoint_age_s is not None:
        text.append(f"   saved {duration(status.checkpoint_age_s)} ago", style="default")
    else:
        text.append("   not saved yet", style="bright_black")
    if status.failed_saves:
        text.append(f"   {counted(status.failed_saves, 'failed save')}", style="bold red")
    return text
