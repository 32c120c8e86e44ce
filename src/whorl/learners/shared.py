"""What ``window`` and ``queue`` have in common: any learner may read any actor's trajectories."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from whorl.engines.contract import Board, Role, RoleId, Wait
from whorl.engines.waits import names_of
from whorl.job import Job
from whorl.learners.intake import Intake
from whorl.learners.learner import Learner
from whorl.learners.owned_actors import OwnedActors
from whorl.ops.keys import key
from whorl.trajectory.episodes import Episodes, episodes_of
from whorl.types import Arrays

_DRAWS = 0x64726177
"""Tells these keys from others of the same seed."""


class SharedLearner(Learner):
    """A learner that has followed no actor: each trajectory says itself what there is to count in it."""

    def __init__(self, job: Job, rank: int, role: Role, whereabouts: Iterable[Board]) -> None:
        """``whereabouts`` are where its own actors write down where they stand, a board for each strand."""
        super().__init__(job, rank, role.clock, in_order=False)
        self.group = job.lane_map.actors_of_learner(rank)
        """Its own actors."""
        strands = {actor: job.lane_map.strands_of_actor(actor) for actor in self.group}
        boards = dict(zip(self.ledgers, whereabouts, strict=True))
        self.owned = OwnedActors(role.line, strands, self.ledgers, boards)

    def follow(self, strand: int, trajectory: Arrays) -> Episodes:
        """No ledger moves."""
        del strand
        return episodes_of(trajectory)

    def saved_ledger(self) -> Arrays:
        """Where its own actors stand at this moment; it may have none."""
        self.owned.look()
        return super().saved_ledger() if self.ledgers else {}


class Draws:
    """Random choices that follow from the seed, the learner and the update alone."""

    def __init__(self, seed: int, rank: int) -> None:
        self._seed, self._rank = seed, rank
        self._update, self._count = -1, 0

    def pick(self, candidates: Sequence[int], update: int) -> int:
        """One of these; each as likely as any other."""
        if update != self._update:
            self._update, self._count = update, 0
        self._count += 1
        return candidates[key(self._seed, _DRAWS, self._rank, update, self._count) % len(candidates)]


class FromAnybody(Intake):
    """An intake whose learner starts and replaces its own actors, and reads others' as well."""

    def __init__(self, learner: SharedLearner) -> None:
        self._learner = learner
        self._needed = learner.job.lane_map.trajectories
        self._bound = learner.job.config.workflow.max_staleness
        self._draws = Draws(learner.job.config.run.seed, learner.rank)

    def start(self) -> None:
        """Have its own actors begin."""
        self._learner.abandon(self._learner.owned.start())

    def lost(self, body: dict[str, Any]) -> None:
        """One of its own actors was replaced."""
        self._learner.abandon(self._learner.owned.lost(body))

    def _is_stale(self, trajectory: Arrays) -> bool:
        return self._bound is not None and self._learner.staleness(trajectory) > self._bound


def wait_for_any(endpoints: Iterable[Any], what: str, actors: Iterable[int]) -> Wait:
    """For news of any of these actors."""
    roles = tuple(RoleId("actor", actor) for actor in actors)
    return Wait(tuple(endpoints), f"{what} of {names_of(roles)}", roles)
