"""A replay's state: the memory, the ledgers of its actors, the pace, and the news that learners have not heard yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from whorl.errors import CheckpointError
from whorl.job import Job
from whorl.learners.ledger import Ledger, cut_saved, join_saved, make_ledgers, own
from whorl.learners.replay.news import News
from whorl.learners.replay.pace import Pace
from whorl.learners.replay.rations import BatchForm, Rations, draws_of, make_memory, samples_per_insert
from whorl.learners.saving import STORED
from whorl.learners.tally import count_staleness
from whorl.ops.noise import generator
from whorl.replay.memory import Memory
from whorl.replay.rows import in_one_column
from whorl.trajectory.episodes import told_metrics
from whorl.trajectory.lanes import group_of
from whorl.trajectory.layout import env_steps_of
from whorl.types import Array, Arrays

_DRAWING = 7
"""The purpose of its random numbers."""
_STATE = "shard"


def actors_of_store(job: Job, index: int) -> range:
    """The actors whose trajectories go to a replay."""
    return group_of(job.lane_map.actors, job.config.workflow.replay_shards, index)


class Store:
    """One of the replays of a run."""

    def __init__(self, job: Job, index: int, learners: int) -> None:
        wanted, stores = draws_of(job.agent_spec), job.config.workflow.replay_shards
        rations = Rations.of(job)
        self.job, self._index, self._stores = job, index, stores
        self._form = BatchForm(job)
        self._draws = rations.draws
        self._memory: Memory[Any] = make_memory(job, wanted.capacity // stores)
        self.actors = actors_of_store(job, index)
        self.ledgers = make_ledgers(job, self.actors)
        self._pace = Pace(samples_per_insert(job), -(-wanted.learning_starts // stores), rations.draws)
        self._drawn_before = np.full(self._memory.capacity, -1, np.int64)
        """By place: the generation that was last drawn."""
        self._news = News()
        self._told: list[deque[News]] = [deque() for _ in range(learners)]
        """News of the batches that each learner may not have learnt from yet, oldest first."""
        self._generator = generator(job.config.run.seed, index, 0, _DRAWING)

    def ledger_after(self, strand: int, arrived: Iterable[Arrays]) -> Ledger:
        """Where this strand's lanes will stand after those of the trajectories that are its own."""
        return self.ledgers[strand].after(own(strand, arrived))

    @property
    def may_insert(self) -> bool:
        """There is room for a trajectory, as far as the pace is concerned."""
        return self._pace.may_insert or not len(self._memory)

    @property
    def may_draw(self) -> bool:
        """A batch may be handed out."""
        return self._pace.may_draw and len(self._memory) > 0

    def insert(self, strand: int, trajectory: Arrays, updates: int) -> None:
        """Take a trajectory in; ``updates`` were made so far."""
        episodes, env_steps = self.ledgers[strand].accept(trajectory), env_steps_of(trajectory)
        counts = self._news.counts
        counts["env_steps"] += env_steps
        counts["faults"] += episodes.faults
        counts["inexact"] += not self.ledgers[strand].exact
        self._news.ended(episodes.ended)
        count_staleness(max(updates, 0), trajectory, env_steps, self._news.staleness)
        rows = dict(trajectory)
        priority = rows.pop("priority", None)
        column = in_one_column(self._memory.apart(rows))
        self._memory.insert(column, None if priority is None else self._by_place(priority, column))
        self._pace.inserted += env_steps

    def _by_place(self, priority: Array, column: Arrays) -> Array:
        """Lane after lane, as the rows are stored. Where each row has a priority, those added to them have none."""
        if self._memory.places_of(column) > priority.size:
            priority = np.pad(priority, ((self._memory.lead_rows, 1), (0, 0)))
        return priority.T

    def fill(self, batch: Arrays, learner: int, unreleased: int) -> None:
        """Draw a batch for a learner, who has not given back this many of those before."""
        drawn = self._memory.draw(self._generator.random(self._draws))
        self._form.write(batch, drawn)
        self._pace.drawn += self._draws
        self._count_reuse(drawn.indices, drawn.generations)
        self._news.write(batch)
        told = self._told[learner]
        _keep_last(told, unreleased)
        told.append(self._news)
        self._news = News()

    def _count_reuse(self, indices: Array, generations: Array) -> None:
        fresh = indices[self._drawn_before.take(indices) != generations]
        self._drawn_before[indices] = generations
        self._news.counts["reused"] += len(indices) - len(np.unique(fresh))

    def take_priorities(self, message: Arrays) -> None:
        """What a learner wrote back."""
        count = int(message["count"][0])
        late = self._memory.set_priorities(*(message[name][:count] for name in ("indices", "generations", "errors")))
        self._news.counts["late_priorities"] += late

    def untold(self, unreleased: list[int]) -> News:
        """What no learner has counted yet: the news in batches that were not learnt from (so many of each learner's),
        and what came since."""
        news = News()
        for told, count in zip(self._told, unreleased, strict=True):
            _keep_last(told, count)
            for one in told:
                news.add(one)
        news.add(self._news)
        return news

    def save(self, unreleased: list[int]) -> dict[str, Arrays]:
        """Pieces of a checkpoint (views, not copies), as if the batches that no learner has learnt from (so many of
        each) had never been drawn."""
        counts = {
            "stores": self._stores,
            "inserted": self._pace.inserted,
            "drawn": self._pace.drawn - sum(unreleased) * self._draws,
        }
        state = {name: np.array(value, np.int64) for name, value in counts.items()}
        # Draws of batches that were not learnt from are among these: the next ones may hit a few of the same.
        state["drawn_before"] = self._drawn_before
        news = self.untold(unreleased).save(len(told_metrics(self.job.env)))
        pieces = {_STATE: {**state, **news}, **self._memory.save()}
        return {f"{STORED}{self._index}-{name}": piece for name, piece in pieces.items()}

    def saved_ledger(self) -> Arrays:
        """The ledgers of its actors, in lane order."""
        return join_saved([ledger.save() for ledger in self.ledgers.values()])

    def load(self, arrays: Mapping[str, Arrays]) -> dict[str, Arrays]:
        """Go on from a checkpoint's files; returns those of this replay."""
        prefix = f"{STORED}{self._index}-"
        mine = {name: piece for name, piece in arrays.items() if name.startswith(prefix)}
        pieces = {name.removeprefix(prefix): piece for name, piece in mine.items()}
        state = pieces.pop(_STATE, {})
        stores = int(state["stores"]) if state else 0
        if stores != self._stores:
            raise CheckpointError(
                f"the run's memory was shared out over {stores} replays and cannot go on with {self._stores}: put "
                "workflow.replay_shards in its config.toml back"
            )
        self._memory.load(pieces)
        for ledger in self.ledgers.values():
            ledger.load(cut_saved(dict(arrays["ledger"]), ledger.lanes))
        self._pace.inserted, self._pace.drawn = int(state["inserted"]), int(state["drawn"])
        if "drawn_before" in state:  # older checkpoints have none
            self._drawn_before[:] = state["drawn_before"]
        self._news = News.read(state)
        self._generator = generator(self.job.config.run.seed, self._index, self._pace.drawn, _DRAWING)
        return mine


def _keep_last(told: deque[News], count: int) -> None:
    """Learners give batches back in the order they got them."""
    while len(told) > count:
        told.popleft()
