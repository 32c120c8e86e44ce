"""What the supervisor knows of a role that lives in a station."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from whorl.engines.members import Member

_NOTHING_USED = {"cpu_s": 0.0, "memory_bytes": 0.0, "bytes_sent": 0.0}


@dataclass
class Remote(Member):
    """Known from what its station reports and, of environment steps, from whoever it handed something to."""

    unit: int
    alive: bool = False
    counted_so_far: int = 0
    """By the newest incarnation."""
    past_counted: int = 0
    spent: dict[str, float] = field(default_factory=dict)
    """Seconds per phase, as its station last said."""
    past_spent: dict[str, float] = field(default_factory=dict)
    """In stations that are gone."""
    used: dict[str, float] = field(default_factory=lambda: dict(_NOTHING_USED))

    @property
    def running(self) -> bool:
        return self.alive

    @property
    def counted_lately(self) -> int:
        return self.counted_so_far

    @property
    def counted(self) -> int:
        """Environment steps of all incarnations."""
        return self.past_counted + (self.counted_so_far if self.alive else 0)

    def start_afresh(self) -> None:
        self.counted_so_far = 0

    def shares(self) -> dict[str, float]:
        """Seconds per phase, of all incarnations in all stations."""
        return _sum(self.past_spent, self.spent)

    def usage(self) -> dict[str, float]:
        """As its station last said."""
        return self.used

    def begin(self) -> None:
        """An incarnation was asked for."""
        self.alive, self.start_at, self.counted_so_far = True, None, 0

    def report(self, row: Mapping[str, Any]) -> None:
        """What its station says of it."""
        self.count(row["incarnation"], row["counted"])
        self.spent = row["shares"]
        self.used = row.get("usage", self.used)

    def count(self, incarnation: int, counted: int) -> None:
        """Its station, or one that it handed something to, has seen it count so far."""
        if incarnation == self.incarnation and self.alive:
            self.counted_so_far = max(self.counted_so_far, counted)

    def depart(self, ended: bool) -> None:
        """The incarnation is gone."""
        self.alive, self.ended = False, ended
        self.past_counted += self.counted_so_far

    def leave_station(self) -> None:
        """The next station begins to count time anew."""
        self.past_spent, self.spent = self.shares(), {}


def _sum(ones: Mapping[str, float], others: Mapping[str, float]) -> dict[str, float]:
    return {name: ones.get(name, 0.0) + others.get(name, 0.0) for name in {**ones, **others}}
