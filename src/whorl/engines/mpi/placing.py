"""The plan as it is about to run, for people: which rank, on which node, has which role."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from whorl.config.schema import EngineConfig
from whorl.engines.contract import Plan
from whorl.engines.mpi.seat import Seat


@dataclass(frozen=True)
class Told:
    """What the ranks have found out about their machines."""

    one_sided: bool
    slowest_get_s: float

    @classmethod
    def of(cls, bodies: Iterable[Mapping[str, Any]]) -> Told:
        """From what each of them says when it is ready."""
        told = list(bodies)
        return cls(all(body["one_sided"] for body in told), max(body["slowest_get_s"] for body in told))


def plan_table(plan: Plan, seats: Iterable[Seat], world_size: int, told: Told, config: EngineConfig) -> Iterator[str]:
    """Lines for the console."""
    yield "rank  node            role         groups"
    for seat in seats:
        groups = [spec.name for spec in plan.groups if seat.id in spec.members]
        groups += [team.name for team in plan.teams if seat.id in team.members]
        parked = " (parked)" if seat.parked else ""
        yield f"{seat.rank:>4}  {seat.node[:14]:<14}  {seat.id!s:<11}  {', '.join(groups) or '-'}{parked}"
    if len(plan.roles) < world_size:
        yield f"ranks {len(plan.roles)} to {world_size - 1} have no role and sleep"
    if not told.one_sided and config.one_sided == "auto":
        yield (
            f"one-sided access waits for its target here ({told.slowest_get_s * 1e3:.0f} ms): "
            "everything goes by messages, and a learner does not help with another's actors"
        )
