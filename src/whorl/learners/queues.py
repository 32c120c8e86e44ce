"""Learning from queues: each trajectory goes to one learner, first of all to one of the group its actor is in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from whorl.engines.contract import Channel, Wait
from whorl.learners.intake import named
from whorl.learners.learner import Batch
from whorl.learners.shared import FromAnybody, SharedLearner, wait_for_any
from whorl.types import Arrays


class Queues(FromAnybody):
    """Takes at random from those of its own group that hold something; when none does, from anybody's."""

    def __init__(self, learner: SharedLearner, queues: list[Channel]) -> None:
        """``queues`` are those of all actors."""
        super().__init__(learner)
        self._queues = queues
        self._others = [actor for actor in range(len(queues)) if actor not in learner.group]
        self._taken: list[tuple[int, Arrays]] = []

    def claim(self) -> bool:
        """Take until the batch is complete, or nothing waits anywhere."""
        while len(self._taken) < self._needed:
            if not self._take_one_of(self._learner.group) and not self._take_one_of(self._others):
                return False
        return True

    def active(self, actors: Iterable[int]) -> list[int]:
        """The activity bitmap, as far as it is set: those of these actors in whose queues something waits."""
        return [actor for actor in actors if self._queues[actor].readable.ready()]

    def _take_one_of(self, actors: Iterable[int]) -> bool:
        """Take, or drop, one trajectory; False when there is none."""
        active = self.active(actors)
        while active:
            actor = self._draws.pick(active, self._learner.updates)
            trajectory = self._queues[actor].try_claim()
            if trajectory is None:
                active.remove(actor)  # another learner was faster
                continue
            if self._is_stale(trajectory):
                self._learner.drop(*named(trajectory))
                self._queues[actor].release(-1)  # itself: of other strands' there may be some that are kept
            else:
                self._taken.append((actor, trajectory))
            return True
        return False

    def batch(self) -> Batch:
        """What was taken."""
        return [named(trajectory) for _, trajectory in self._taken]

    def release(self) -> None:
        """Give the slots back."""
        for actor, _ in self._taken:
            self._queues[actor].release()
        self._taken = []

    def lost(self, body: dict[str, Any]) -> None:
        """One of its own actors was replaced."""
        hand_overs = self._queues[int(body["index"])].handed_over
        self._learner.abandon(self._learner.owned.lost(body, hand_overs))

    @property
    def waiting(self) -> int:
        """In all queues, and what was taken from them."""
        return sum(queue.filled for queue in self._queues)

    @property
    def wait(self) -> Wait:
        """Until something lies in any queue."""
        return wait_for_any((queue.readable for queue in self._queues), "the queues", range(len(self._queues)))
