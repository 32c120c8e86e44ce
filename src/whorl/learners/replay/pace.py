"""The pace of a replay: neither learners nor actors run away.

x = samples_per_insert * (env steps taken in since learning may begin) - draws handed out

A batch is handed out where x covers it, and a trajectory is taken in where it does not: always one of the two, so that
nobody waits for ever, and x stays between 0 and a batch more than what one trajectory is worth.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Pace:
    """Counts what comes and goes."""

    samples_per_insert: float
    """0: neither waits for the other."""
    starts_at: int
    """Env steps before the first batch."""
    draws: int
    """Of a batch."""
    inserted: int = 0
    """Env steps taken in."""
    drawn: int = 0

    @property
    def owed(self) -> float:
        """Draws that the env steps taken in allow for: x."""
        return self.samples_per_insert * (self.inserted - self.starts_at) - self.drawn

    @property
    def may_draw(self) -> bool:
        """A batch may be handed out."""
        if self.samples_per_insert == 0:
            return self.inserted >= self.starts_at
        return self.owed >= self.draws

    @property
    def may_insert(self) -> bool:
        """A trajectory may be taken in."""
        return self.samples_per_insert == 0 or not self.may_draw
