"""How often a role may be started again, and how soon."""

from __future__ import annotations

from collections import Counter

from whorl.engines.contract import RoleId
from whorl.errors import RoleLostError

_BACKOFF_S = (0.0, 0.0, 0.1, 0.5, 1.0, 2.0)
_SETTLED_S = 5.0


class RestartBudget:
    """Counts losses. A role that keeps dying is started ever more slowly, and in the end not at all."""

    def __init__(
        self, max_restarts: int, max_restarts_without_progress: int, restarting_all: frozenset[RoleId] = frozenset()
    ) -> None:
        """``restarting_all`` are the roles whose loss takes the run back to its checkpoint."""
        self._max_restarts = max_restarts
        self._restarting_all = restarting_all
        self._furthest = -1
        self._max_without_progress = max_restarts_without_progress
        self._total = 0
        self._without_progress: Counter[RoleId] = Counter()
        self._young_deaths: Counter[RoleId] = Counter()

    def spend(self, role: RoleId, lived_s: float, cause: str) -> float:
        """Account for a loss; returns how long to wait before the next start, or raises ``RoleLostError``."""
        self._total += 1
        self._without_progress[role] += 1
        self._young_deaths[role] = self._young_deaths[role] + 1 if lived_s < _SETTLED_S else 1
        if self._total > self._max_restarts:
            raise RoleLostError(f"{role} was lost, the run's {self._total}th loss (engine.max_restarts): {cause}")
        if self._without_progress[role] > self._max_without_progress:
            raise RoleLostError(
                f"{role} was lost {self._without_progress[role]} times without a new update between "
                f"(engine.max_restarts_without_progress): {cause}"
            )
        return _BACKOFF_S[min(self._young_deaths[role], len(_BACKOFF_S)) - 1]

    def recovered(self, role: RoleId) -> None:
        """It works again, as somebody who depends on it says: its own count starts again, and nearly its back-off."""
        self._without_progress.pop(role, None)
        self._young_deaths[role] = min(1, self._young_deaths[role])

    def progress(self, update: int) -> bool:
        """There was an update: counts without progress start again. The back-off does not. True when it is a new one.

        For a role whose loss takes the run back, only an update further than any before counts: one that fails at the
        same update each time does those before it again each time.
        """
        if update > self._furthest:
            self._furthest = update
            self._without_progress.clear()
            return True
        for role in self._without_progress.keys() - self._restarting_all:
            del self._without_progress[role]
        return False
