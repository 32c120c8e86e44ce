"""Where everybody waits for everybody, one slow actor slows all: it is named, once.

Slow is one that takes long again and again. A single pause, however long, says nothing of an actor: the machine may
have been busy with something else.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Mapping

MUCH_SLOWER = 3.0
MUCH_OF_THE_TIME = 0.3
MOSTLY = 0.5
_FEWEST_BATCHES = 8


class Stragglers:
    """Adds up how long each actor takes for its trajectories."""

    def __init__(self) -> None:
        self._took_s: Counter[int] = Counter()
        self._was_late: Counter[int] = Counter()
        self._batches = 0
        self._began = 0.0
        self._named: set[int] = set()

    def saw(self, took_s: Mapping[int, float]) -> tuple[int, str] | None:
        """A batch came in, for which each actor took so long. The actor that the others wait for, and a sentence on
        it; None for one that was named before."""
        if not self._batches:
            self._began = time.monotonic()
        self._batches += 1
        self._took_s.update(took_s)
        slowest = max(took_s, key=took_s.__getitem__)
        others = [seconds for other, seconds in took_s.items() if other != slowest]
        if others and took_s[slowest] >= MUCH_SLOWER * statistics.median(others):
            self._was_late[slowest] += 1
        looks_now = self._batches.bit_count() == 1 and self._batches >= _FEWEST_BATCHES  # ever less often
        return self._judge(time.monotonic() - self._began) if looks_now else None

    def _judge(self, elapsed_s: float) -> tuple[int, str] | None:
        actor, longest_s = self._took_s.most_common(1)[0]
        others = [seconds for other, seconds in self._took_s.items() if other != actor]
        if actor in self._named or not others or self._was_late[actor] <= MOSTLY * self._batches:
            return None
        usual_s = statistics.median(others)
        waited = (longest_s - usual_s) / max(elapsed_s, 1e-9)
        if longest_s < MUCH_SLOWER * usual_s or waited < MUCH_OF_THE_TIME:
            return None
        self._named.add(actor)
        return actor, (
            f"takes {longest_s / max(usual_s, 1e-9):.0f} times as long as the others, which wait for it "
            f"{100 * min(1.0, waited):.0f} % of the time"
        )
