"""A learner that never sees a trajectory: it learns from batches of replays, and writes priorities back to them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Mapping
from typing import Any, cast

from whorl.agents.contract import Progress, Replaying
from whorl.engines.contract import Channel, Clock, Group, RoleId, Wait
from whorl.job import Job
from whorl.learners.learner import Batch, Learner
from whorl.learners.replay.drawing import Errors, Waiting, write_back
from whorl.learners.replay.news import News, news_tally_layout
from whorl.learners.replay.rations import BatchForm, Rations, draws_of
from whorl.trajectory.episodes import told_metrics
from whorl.types import Array, Arrays, Layout


class ReplayLearner(Learner):
    """One learner of the group."""

    def __init__(self, job: Job, rank: int, clock: Clock, priorities: list[Channel]) -> None:
        """``priorities`` go back to the replays; none where draws are uniform."""
        super().__init__(job, rank, clock, in_order=False)
        self.stores = tuple(RoleId("replay", index) for index in range(job.config.workflow.replay_shards))
        self.ledgers = {}
        self.late_priorities = 0
        """Priorities that came back for entries that were overwritten meanwhile."""
        self._priorities = priorities
        form = BatchForm(job)
        self._waiting = {shard: Waiting(form) for shard in self.shards}
        cast(Replaying, self.learning).draw_from(self._waiting, Rations.of(job).steps_per_batch)

    def tally_layout(self) -> Layout:
        """What learners of this kind tell each other."""
        return news_tally_layout(self.job.lane_map.learners, len(told_metrics(self.job.env)))

    def update(self, batch: Batch, contributions: Group, tally: Group) -> Generator[Wait, None, None]:
        """Learn from batches of the replays, in step with the other learners."""
        self._clock.enter("learning")
        yield from self._hear(batch, tally)
        # Replays hand nothing out before learning is to start; of what each of them holds only a part is known here.
        env_steps = max(self.env_steps, draws_of(self.job.agent_spec).learning_starts)
        for i, waiting in enumerate(self._waiting.values()):
            waiting.begin(batch[i :: len(self._waiting)])
        self.learning.begin({}, Progress(self.updates, env_steps, self.job.config.run.steps))
        yield from self.take_steps(contributions)
        self._measured.add(self.learning.finish())
        self.updates += 1
        yield from self._write_back()
        self._clock.enter("other")

    def _hear(self, batch: Batch, tally: Group) -> Generator[Wait, None, None]:
        """Exchange the news of everybody's batches."""
        news = News()
        for _, arrays in batch:
            news.add(News.read(arrays))
        self._tally_buffer[:] = 0
        news.write_tally(self._tally_views, self.rank)
        total = self._tally.views((yield from tally.sum([self._tally_buffer])))
        before = self.window.episodes
        self._heard(total)
        self.window.episodes = before + int(total["episodes"][0])  # also those too many to be told one by one
        self.reused += int(total["reused"][0])
        self.late_priorities += int(total["late_priorities"][0])

    def _write_back(self) -> Generator[Wait, None, None]:
        errors: dict[int, list[Errors]] = defaultdict(list)
        for waiting in self._waiting.values():
            for store, parts in waiting.errors.items():
                errors[store] += parts
        if self._priorities:
            yield from write_back(self._priorities, errors)

    def published(self) -> Array:
        """Actors that compute priorities need all parameters."""
        return cast(Replaying, self.learning).everything() if self._priorities else self.learning.weights()

    def record(self) -> dict[str, Any]:
        """A line of metrics."""
        return {**super().record(), "late_priorities": self.late_priorities}

    def saved_ledger(self) -> Arrays:
        """None: the replays keep the ledgers."""
        return {}

    def save(self, ledgers: list[Arrays]) -> tuple[dict[str, Arrays], dict[str, Any]]:
        """Copies of everything a resume needs, beside what the replays save."""
        arrays, counts = super().save(ledgers)
        return arrays, {**counts, "late_priorities": self.late_priorities}

    def load(self, arrays: Mapping[str, Arrays], counts: Mapping[str, Any]) -> list[str]:
        """Go on from a checkpoint."""
        self.late_priorities = int(counts["late_priorities"])
        return super().load(arrays, counts)
