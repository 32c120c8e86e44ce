"""Environments that end their actor at the same step again and again: after three deaths their episode is given up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from whorl.envs.hosted_lane import DEATHS_BEFORE_QUARANTINE
from whorl.job import Job


def suspects(job: Job, lane: int, neighbours: range) -> range:
    """The lanes that may have ended their role in this one: one call steps all those of a vector form."""
    return neighbours if job.env.vector_form else range(lane, lane + 1)


def given_up(lanes: range, who: str, cause: str) -> str:
    """What the user is told of environments that ended a role, ``who``, again and again."""
    culprit, what = f"the environment of lane {lanes[0]}", "its episode is"
    if len(lanes) > 1:
        culprit, what = f"one of lanes {lanes[0]}..{lanes[-1]}", "their episodes are"
    return (
        f"{culprit} ended its {who} {DEATHS_BEFORE_QUARANTINE} times at the same step: {what} given up, and the run is "
        f"no longer exact{cause and f' ({cause})'}; env.hosting=process would keep its neighbours out of it"
    )


class Quarantine:
    """Counts deaths by place, and says which lanes must not begin where the ledger stands.

    What is given up holds for one trajectory: once it has arrived, the lane is past the deadly episode.
    """

    def __init__(self) -> None:
        self._deaths: Counter[tuple[int, int, int]] = Counter()
        self._given_up: dict[tuple[int, int], int] = {}

    def died(self, lane: int, number: int, at: int) -> int:
        """A lane ended its actor ``at`` environment steps into a trajectory. How often the lane has been given up in
        this trajectory, if this death is one too many; else 0."""
        place = (lane, number, at)
        self._deaths[place] += 1
        if self._deaths[place] < DEATHS_BEFORE_QUARANTINE:
            return 0
        self._deaths[place] = 0
        times = self._given_up.get((lane, number), 0) + 1
        self._given_up[lane, number] = times
        return times

    def given_up(self, number: int) -> Mapping[int, int]:
        """How often each lane was given up in this trajectory."""
        return {lane: times for (lane, of), times in self._given_up.items() if of == number}

    def forget_before(self, number: int) -> None:
        """Trajectories before this one have arrived."""
        if self._deaths:
            self._deaths = Counter({place: count for place, count in self._deaths.items() if place[1] >= number})
            self._given_up = {key: times for key, times in self._given_up.items() if key[1] >= number}
