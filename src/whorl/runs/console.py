"""What a run shows while it trains: a live panel on a terminal, plain lines otherwise, nothing when quiet.

Consoles are drawn from the training thread and cost next to nothing: plain lines every 5 s, the panel 4 times a
second at most. A reader that went away (``whorl train | head``) never stops a run.
"""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, TextIO

from whorl.runs.bottleneck import bottleneck
from whorl.runs.drawing import curve
from whorl.runs.result import Result
from whorl.runs.status import RunStatus, counted, duration, number, one_line, rate


class Console(Protocol):
    """Shows snapshots of a run."""

    def update(self, status: RunStatus) -> None:
        """Show this, unless something was shown just now. Call it as often as you like."""
        ...

    def say(self, lines: Sequence[str]) -> None:
        """Show these as they are, before anything else."""
        ...

    def finish(self, status: RunStatus, result: Result, path: Path) -> None:
        """Show the last state and the summary with the next steps."""
        ...

    def close(self) -> None:
        """Leave the terminal as it was. May be called again, and without ``finish``."""
        ...


class QuietConsole:
    """Shows nothing."""

    def update(self, status: RunStatus) -> None: ...

    def say(self, lines: Sequence[str]) -> None: ...

    def finish(self, status: RunStatus, result: Result, path: Path) -> None: ...

    def close(self) -> None: ...


class PlainConsole:
    """One line every few seconds, without control characters: for logs, pipes and batch jobs."""

    every_s = 5.0

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._shown_at = float("-inf")
        self._shown: tuple[str, ...] = ()

    def update(self, status: RunStatus) -> None:
        """A line when the last one is old enough; a new warning or note at once."""
        self._show_news(status)
        if self._clock() - self._shown_at >= self.every_s:
            self._shown_at = self._clock()
            write_line(self._stream, plain_line(status))

    def say(self, lines: Sequence[str]) -> None:
        """As they are."""
        for line in lines:
            write_line(self._stream, line)

    def finish(self, status: RunStatus, result: Result, path: Path) -> None:
        """The last line, and the summary."""
        self._show_news(status)
        write_line(self._stream, plain_line(status))
        for line in summary_lines(status, result, path, ascii_only=not can_draw(self._stream)):
            write_line(self._stream, line)

    def close(self) -> None:
        """Nothing to put back."""

    def _show_news(self, status: RunStatus) -> None:
        news = (*(f"note: {text}" for text in status.notes), *(f"warning: {text}" for text in status.warnings))
        for line in news:
            if line not in self._shown:
                write_line(self._stream, one_line(line, 1000))
        self._shown = news


def make_console(quiet: bool = False, stream: TextIO | None = None) -> Console:
    """The console that fits: rich is imported only where there is a terminal to draw on."""
    stream = sys.stdout if stream is None else stream
    if quiet or stream is None or stream.closed:  # none: started with its output closed
        return QuietConsole()
    if stream.isatty():
        from whorl.runs.panel import LiveConsole

        return LiveConsole(stream)
    return PlainConsole(stream)


def plain_line(status: RunStatus) -> str:
    """A snapshot in one line."""
    parts = [
        f"{status.env_steps:,} of {status.total_env_steps:,} env steps ({100 * status.fraction:.0f} %)",
        f"{rate(status.env_steps_per_s)} env steps/s",
        f"{status.updates:,} updates",
        f"return {number(status.return_mean)}",
        f"{status.episodes:,} episodes",
        duration(status.elapsed_s),
    ]
    if status.env_steps < status.total_env_steps and status.env_steps_per_s > 0:
        parts.append(f"{duration(status.remaining_s)} left")
    if status.staleness_max:
        parts.append(f"staleness {status.staleness_mean:.1f} (max {status.staleness_max})")
    if status.restarts:
        parts.append(counted(status.restarts, "restart"))
    if status.failed_saves:
        parts.append(counted(status.failed_saves, "failed save"))
    if status.phase:
        parts.append(one_line(status.phase, 60))
    return " | ".join(parts)


def summary_lines(status: RunStatus, result: Result, path: Path, ascii_only: bool, width: int = 60) -> list[str]:
    """The end of a run: what came out, the curve, where the time went, and what to do next."""
    headline = {
        "completed": "Done",
        "stopped": "Stopped",
        "preempted": "Preempted, saved and resumable",
        "failed": "Failed",
    }[result.status]
    value = number(result.return_mean) if result.return_mean is not None else "-"
    new = result.env_steps - status.resumed_at_env_steps
    since = f"; {new:,} of the env steps since the resume," if status.resumed_at_env_steps else ""
    speed = rate(result.env_steps_per_s) if result.env_steps_per_s is not None else "-"
    lines = [
        "",
        f"{headline}: {one_line(result.agent)} on {one_line(result.env)} "
        f"({one_line(result.workflow)}, {one_line(result.engine)}{', exact' if result.exact else ''})",
        f"  return    {value} (mean of the last {min(100, result.episodes)} of {result.episodes:,} episodes)",
        f"  trained   {result.env_steps:,} env steps, {result.updates:,} updates{since} in {duration(result.wall_s)} "
        f"({speed} env steps/s)",
    ]
    if result.error:
        lines.append(f"  error     {one_line(result.error, 500)}")
    if status.time_share and result.updates:
        lines.append(f"  time      {bottleneck(status.time_share, result.workflow)}")
    drawn = curve(status.return_history, width=width, height=6, ascii_only=ascii_only, label="return")
    if drawn:
        lines += ["", *(f"  {line}" for line in drawn)]
    run = shlex.quote(one_line(str(path), 1000))
    lines += ["", "Next"]
    if result.status != "completed":
        lines.append(f"  whorl resume {run}")
    if result.updates:  # else there is nothing to look at yet
        lines += [f"  whorl eval {run}", f"  whorl plot {run}"]
    if result.status == "completed":
        ended_early = result.env_steps < status.total_env_steps  # by run.stop_return
        more = "--stop-return none" if ended_early else f"--steps {2 * status.total_env_steps}"
        lines.append(f"  whorl resume {run} {more}")
    return lines


def can_draw(stream: TextIO) -> bool:
    """Whether the stream's encoding has block and braille characters."""
    try:
        "█░⣿┤".encode(stream.encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return False
    return True


def write_line(stream: TextIO, line: str) -> None:
    """Write a line; characters the encoding lacks become ``?``, and a reader that went away is no error."""
    encoding = stream.encoding or "utf-8"
    try:
        stream.write(line.encode(encoding, "replace").decode(encoding) + "\n")
        stream.flush()
    except (OSError, ValueError):
        return
