"""Whose loss a run can live with, where MPI itself survives it: an actor's, while enough of them are left."""

from __future__ import annotations

from collections.abc import Mapping

from whorl.engines.contract import FEWEST_ACTORS, Plan, RoleId
from whorl.engines.mpi.seat import Seat

ACTOR = "actor"


class Survivors:
    """Counts who is left."""

    def __init__(self, plan: Plan, seats: Mapping[RoleId, Seat]) -> None:
        self._fewest = int(plan.job.get(FEWEST_ACTORS, 0))
        self._carriers = plan.carriers
        self._seats = seats

    def spare(self, lost: Seat) -> bool:
        """Whether all can go on without this one: it is an actor, enough others act, and whoever takes from it has
        others to take from."""
        if lost.id.kind != ACTOR or lost.id in self._carriers or not self._fewest:
            return False
        others = self._others(lost)
        takers_have_others = all(any(role in other.spec.notify for other in others) for role in lost.spec.notify)
        return len(others) >= self._fewest and takers_have_others

    def left(self, lost: Seat) -> int:
        """How many act."""
        return len(self._others(lost))

    def _others(self, lost: Seat) -> list[Seat]:
        acting = (seat for seat in self._seats.values() if seat.id.kind == ACTOR and seat.running)
        return [seat for seat in acting if seat is not lost]
