"""A trial's metrics, read while it runs. Its file is all that is asked of a trial, so that one that crashes has told
everything up to there."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal


@dataclass
class Curve:
    """One metric over environment steps."""

    path: Path
    metric: str
    env_steps: int = 0
    """Of the newest line."""
    points: list[tuple[int, float]] = field(default_factory=list)
    """(env_steps, value) of each line that has a finite value."""
    names: set[str] = field(default_factory=set)
    """The metrics there are."""
    _end: int = 0
    _last_line: bytes = b""

    def read(self) -> None:
        """Take in the lines that have come. A run that was resumed has cut its file: then all of it is read again."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._end - len(self._last_line))
                if file.read(len(self._last_line)) != self._last_line:
                    self._forget()
                    file.seek(0)
                for line in file:
                    if not line.endswith(b"\n"):
                        break
                    self._take(line)
                    self._end, self._last_line = self._end + len(line), line
        except OSError:
            return

    def _take(self, line: bytes) -> None:
        try:
            record = json.loads(line)
            env_steps, value = int(record["env_steps"]), record.get(self.metric)
        except (ValueError, KeyError, TypeError, AttributeError):
            return
        self.names |= record.keys()
        self.env_steps = env_steps
        if isinstance(value, int | float) and math.isfinite(value):
            self.points.append((env_steps, float(value)))

    def _forget(self) -> None:
        self.env_steps, self.points, self._end, self._last_line = 0, [], 0, b""

    def at(self, env_steps: int) -> float | None:
        """The first value from there on; None before there is one."""
        return next((value for steps, value in self.points if steps >= env_steps), None)

    def score(self, kind: Literal["last", "best", "mean"], goal: Literal["maximise", "minimise"]) -> float | None:
        """The number a trial is compared by; None where there is none."""
        values = [value for _, value in self.points]
        if not values:
            return None
        if kind == "last":
            return values[-1]
        if kind == "mean":
            return math.fsum(values) / len(values)
        return max(values) if goal == "maximise" else min(values)
