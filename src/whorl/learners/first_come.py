"""Intakes that take trajectories in the order they come: as it happens, or as a recorded schedule says."""

from __future__ import annotations

from collections import deque

from whorl.engines.contract import Channel, Role
from whorl.learners.intake import FromActors, named
from whorl.learners.learner import Batch, Learner
from whorl.learners.schedule import Entry, Schedule, ScheduleWriter, Taken, taken
from whorl.types import Arrays


class AnyOrder(FromActors):
    """What batches that leave actors out and take others twice have in common."""

    def __init__(self, role: Role, learner: Learner, channels: list[Channel]) -> None:
        super().__init__(role, learner, channels)
        self._learner = learner
        self._taken: list[int] = []
        self._dropped: list[Taken] = []
        """Since the last batch."""
        self._recorder: ScheduleWriter | None = None

    def _take(self, actors: list[int]) -> Batch:
        """The oldest of each of these, as often as it is named."""
        self._taken = actors
        trajectories = {actor: iter(self._sources[actor].arrived) for actor in set(actors)}
        batch = [named(next(trajectories[actor])) for actor in actors]
        self._record(batch)
        self._dropped = []
        return batch

    def _drop(self, actor: int, trajectory: Arrays) -> None:
        self._dropped.append(taken(actor, trajectory))
        self._learner.drop(*named(trajectory))
        self._give_back(actor, trajectory)

    def _record(self, batch: Batch) -> None:
        learner = self._learner
        if not learner.job.config.run.record_schedule:
            return
        if self._recorder is None:
            self._recorder = ScheduleWriter(learner.job.run_dir, learner.rank, learner.updates)
        self._recorder.write(learner.updates, [taken(actor, trajectory) for actor, trajectory in batch], self._dropped)

    def release(self) -> None:
        """The slots of the batch."""
        for actor in self._taken:
            self._give_back(actor)
        self._taken = []
        super().release()

    @property
    def awaited(self) -> list[int]:
        """Anybody's."""
        return list(self._sources)


class FirstCome(AnyOrder):
    """Whatever comes, in the order it comes; what is too stale by then is dropped."""

    def __init__(self, role: Role, learner: Learner, channels: list[Channel]) -> None:
        super().__init__(role, learner, channels)
        self._needed = learner.job.lane_map.trajectories
        self._bound = learner.job.config.workflow.max_staleness
        self._order: deque[tuple[int, Arrays]] = deque()
        """What has arrived, with its actor, first come first."""

    def claim(self) -> bool:
        """Take what is there, of everybody."""
        for actor in self._sources:
            self._claim_of(actor)
        self._drop_stale()
        return len(self._order) >= self._needed

    def _claim_of(self, actor: int) -> int:
        count = super()._claim_of(actor)
        arrived = self._sources[actor].arrived
        self._order.extend((actor, trajectory) for trajectory in arrived[len(arrived) - count :])
        return count

    def _drop_stale(self) -> None:
        """Wherever it stands: what a slow strand hands over may be staler than what came before it."""
        if self._bound is None:
            return
        fresh: deque[tuple[int, Arrays]] = deque()
        for actor, trajectory in self._order:
            if self._learner.staleness(trajectory) <= self._bound:
                fresh.append((actor, trajectory))
            else:
                self._drop(actor, trajectory)
        self._order = fresh

    def batch(self) -> Batch:
        """The first that came."""
        return self._take([self._order.popleft()[0] for _ in range(self._needed)])


class Scheduled(AnyOrder):
    """What a recorded run learnt from, update by update.

    A board keeps the newest weights and those before. So that every actor finds the version it is to collect with,
    no update is made before whatever was collected with older ones has come in. What the recorded run dropped before
    an update is dropped as it comes: its actor may need the slot for what it hands over before the same update.
    """

    def __init__(self, role: Role, learner: Learner, channels: list[Channel]) -> None:
        super().__init__(role, learner, channels)
        self._schedule = Schedule(learner.job)
        self._ahead = deque(self._schedule.by_version(self._sources))
        self._due: dict[int, int] = {}
        """The number that each actor's last must have before the next update."""
        self._came: dict[int, int] = {}
        """The number that it has."""

    def claim(self) -> bool:
        """Until everything is there that the recorded run had by then."""
        for actor, source in self._sources.items():
            self._claim_of(actor)
            for trajectory in source.arrived[-1:]:
                self._came[actor] = int(trajectory["number"][0])
        while self._ahead and self._ahead[0].version < self._learner.updates:
            self._expect(self._ahead.popleft())
        for one in (*self._entry.batch, *self._entry.dropped):
            self._expect(one)
        self._drop_recorded()
        return all(self._came.get(actor, -1) >= number for actor, number in self._due.items())

    def _expect(self, one: Taken) -> None:
        self._due[one.actor] = max(one.number, self._due.get(one.actor, -1))

    def _drop_recorded(self) -> None:
        for one in self._entry.dropped[len(self._dropped) :]:
            arrived = self._sources[one.actor].arrived
            if not arrived:
                break  # in the recorded order, here too
            self._drop(one.actor, arrived[0])

    @property
    def _entry(self) -> Entry:
        return self._schedule.entry(self._learner.rank, self._learner.updates)

    def batch(self) -> Batch:
        """As recorded."""
        return self._take([one.actor for one in self._entry.batch])
