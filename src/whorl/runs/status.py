"""A snapshot of a run for people to look at, and how its numbers are written."""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass(frozen=True)
class RunStatus:
    """What a console shows. Plain values: whoever draws it holds nothing of the run."""

    agent: str
    env: str
    workflow: str
    engine: str
    exact: bool
    env_steps: int
    total_env_steps: int
    updates: int
    episodes: int
    elapsed_s: float
    env_steps_per_s: float
    updates_per_s: float = 0.0
    resumed_at_env_steps: int = 0
    """Where this session of the run began."""
    return_mean: float = math.nan
    """Over the last 100 episodes; NaN before the first."""
    return_best: float = math.nan
    return_history: tuple[tuple[int, float], ...] = ()
    """(env_steps, return_mean), oldest first; long ones are fine, they are thinned out when drawn."""
    staleness_mean: float = 0.0
    staleness_max: int = 0
    time_share: dict[str, dict[str, float]] = field(default_factory=dict)
    """Per kind of role, per phase: a share between 0 and 1."""
    restarts: int = 0
    failed_saves: int = 0
    checkpoint_update: int | None = None
    checkpoint_age_s: float | None = None
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """What was decided or changed on the way, as it was asked for."""
    """Newest last."""
    phase: str = ""
    """What goes on while no steps are counted: ``starting``."""

    @property
    def fraction(self) -> float:
        """0 at the start, 1 at the end."""
        return min(1.0, self.env_steps / max(1, self.total_env_steps))

    @property
    def remaining_s(self) -> float:
        """At the present rate; infinite when nothing moves."""
        left = max(0, self.total_env_steps - self.env_steps)
        if left == 0:
            return 0.0
        return left / self.env_steps_per_s if self.env_steps_per_s > 0 else math.inf


def one_line(text: str, width: int = 200) -> str:
    """Text from elsewhere as one printable line: no control characters, no colours, not endless."""
    line = "".join(character if character.isprintable() else " " for character in text)
    line = " ".join(line.split())
    return line if len(line) <= width else line[: max(0, width - 3)] + "..."


def number(value: float) -> str:
    """A number in few characters: ``21.5``, ``-1,234``, ``-`` when there is none."""
    if not math.isfinite(value):
        return "-"
    if abs(value) >= 1e7:
        return f"{value:.3g}"
    if abs(value) >= 1000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def counted(count: int, noun: str) -> str:
    """``1 restart``, ``2 restarts``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def rate(value: float) -> str:
    """A rate in few characters: ``12.3k``."""
    if not math.isfinite(value):
        return "-"
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= limit:
            return f"{value / (1e3 if unit == 'k' else limit):.1f}{unit}"
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def duration(seconds: float) -> str:
    """``4.2 s``, ``3 min 20 s``, ``2 h 05 min``; ``-`` when unknown."""
    if not math.isfinite(seconds) or seconds < 0:
        return "-"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min" if whole < 360_000 else f"{whole // 86_400} days"
