"""A learner: the agent's learning half, the ledger of its actors, and how far the run is.

    learner = Learner(role.job, rank)
    learner.load(checkpoint)                                    # or begin at update 0
    while not learner.done:
        yield from learner.update(trajectories, contributions, tally)

Every learner holds the same weights and the same counts; only the ledgers differ.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from whorl.agents.contract import LearnerSettings, Progress
from whorl.config.layers import to_plain
from whorl.engines.contract import Clock, Group, RoleId, Wait
from whorl.job import Job
from whorl.learners.changes import changes_that_matter
from whorl.learners.ledger import Ledger, cut_saved, join_saved, make_ledgers, own
from whorl.learners.tally import MAX_COUNTED_STALENESS, count_staleness, tally_layout
from whorl.runs.metrics import EpisodeWindow, MetricMeans
from whorl.trajectory.episodes import Episodes, told_metrics
from whorl.trajectory.layout import cut_lanes, env_steps_of, join_lanes
from whorl.types import Array, Arrays, Layout, leaves_of

Batch = Sequence[tuple[int, Arrays]]
"""What an update learns from: trajectories with the strand that each is of. Those of one strand are in their order."""


def learner_settings(job: Job, *, shards: int, lanes: int, contiguous: bool) -> LearnerSettings:
    """Where and with what the learning half of this job computes."""
    run, resources = job.config.run, job.config.resources
    return LearnerSettings(
        seed=run.seed,
        device=resources.device,
        threads=resources.learner_threads,
        compile=run.compile,
        precision="bfloat16" if run.precision == "bfloat16" else "float32",
        shards=shards,
        lanes=lanes,
        contiguous=contiguous,
    )


class Learner:
    """One learner of the group. Workflows decide when it updates, saves and publishes."""

    stores: tuple[RoleId, ...] = ()
    """Roles beside the learners that hold a part of what is saved."""

    def __init__(
        self, job: Job, rank: int, clock: Clock, *, in_order: bool = True, keeps_previous: bool = False
    ) -> None:
        """``in_order``: every update learns from one trajectory of each actor, that which follows the last one.
        ``keeps_previous``: the weights before the last update may be asked for."""
        self.job = job
        self.rank = rank
        self.updates = 0
        self.env_steps = 0
        """Learnt from or dropped."""
        self.dropped = 0
        """Of these, not learnt from."""
        self.reused = 0
        """Learnt from more than once: the times after the first."""
        self.faults = 0
        self.exact = True
        self.window = EpisodeWindow(told_metrics(job.env))
        self._in_order = in_order
        self._dropped_here = 0
        self._abandoned_here = 0
        self._staleness = np.zeros(MAX_COUNTED_STALENESS + 1, np.int64)
        self._measured = MetricMeans()
        self.shards = job.lane_map.shards_of_learner(rank)
        self._clock = clock
        lane_map = job.lane_map
        self.actors = lane_map.actors_of_learner(rank)
        self.ledgers = make_ledgers(job, self.actors)
        """Of each strand of its actors."""
        settings = learner_settings(job, shards=lane_map.shards, lanes=lane_map.batch_lanes, contiguous=in_order)
        self.learning = job.agent.learning(job.config.agent, job.env, settings)
        self._previous_weights = self.learning.weights().copy() if keeps_previous else None
        self._tally = self.tally_layout()
        self._tally_buffer = self._tally.allocate()
        self._tally_views = self._tally.views(self._tally_buffer)

    def tally_layout(self) -> Layout:
        """What learners of this kind tell each other."""
        return tally_layout(self.job)

    @property
    def previous_weights(self) -> Array:
        """Those of the version before, for an actor one update behind; the newest where those are not kept."""
        return self.learning.weights() if self._previous_weights is None else self._previous_weights

    @property
    def done(self) -> bool:
        """The run has all its environment steps, or the return it was to stop at."""
        run = self.job.config.run
        if self.env_steps >= run.steps:
            return True
        return run.stop_return is not None and self.window.full and self.window.return_mean >= run.stop_return

    def update(self, batch: Batch, contributions: Group, tally: Group) -> Generator[Wait, None, None]:
        """Learn from trajectories of this learner's actors, in step with the other learners."""
        self._clock.enter("learning")
        progress = Progress(self.updates, self.env_steps, self.job.config.run.steps)  # 0 at the first update
        now = time.time()
        self.measured({"age_s": sum(now - float(one["finished_at"][0]) for _, one in batch) / len(batch)})
        self._tally_buffer[:] = 0
        self._tell(batch, self._tally_views)
        tally.bring([self._tally_buffer])  # what the others tell comes in meanwhile
        if self._previous_weights is not None:
            self._previous_weights[:] = self.learning.weights()
        yield from self.learn([trajectory for _, trajectory in batch], progress, contributions)
        self._measured.add(self.learning.finish())
        total = yield from tally.total()
        self._heard(self._tally_views if total is self._tally_buffer else self._tally.views(total))
        self.updates += 1
        self._clock.enter("other")

    def learn(
        self, trajectories: list[Arrays], progress: Progress, contributions: Group
    ) -> Generator[Wait, None, None]:
        """Take the steps of an update's plan, each with the sum over all learners."""
        self.learning.begin(self._cut(join_lanes(trajectories)), progress)
        yield from self.take_steps(contributions)

    def take_steps(self, contributions: Group) -> Generator[Wait, None, None]:
        """The steps of an update that was begun."""
        for step in self.learning.plan(self.key):
            parts = [self.learning.contribute(step, shard) for shard in self.shards]
            total = yield from contributions.sum(parts)
            self.learning.apply(step, total)

    def measured(self, metrics: Mapping[str, float]) -> None:
        """For the next line of metrics."""
        self._measured.add(metrics)

    def published(self) -> Array:
        """What actors are shown."""
        return self.learning.weights()

    @property
    def key(self) -> tuple[int, ...]:
        """What everything random in this update follows from."""
        return self.job.config.run.seed, self.updates

    def _cut(self, trajectory: Arrays) -> dict[int, Arrays]:
        """The lanes of each of this learner's shards."""
        if len(self.shards) == 1:
            return {self.shards[0]: trajectory}
        width = self.job.lane_map.lanes_per_shard
        return {shard: cut_lanes(trajectory, i * width, (i + 1) * width) for i, shard in enumerate(self.shards)}

    def follow(self, strand: int, trajectory: Arrays) -> Episodes:
        """Move a strand's ledger to the end of its trajectory; returns the episodes in it."""
        return self.ledgers[strand].accept(trajectory)

    def drop(self, strand: int, trajectory: Arrays) -> None:
        """Leave a trajectory out. Its actor has gone on from it, and so does the ledger."""
        self.follow(strand, trajectory)
        self._dropped_here += env_steps_of(trajectory)

    def abandon(self, episodes: int) -> None:
        """Episodes that cannot be gone on with count as ended by a fault."""
        self._abandoned_here += episodes

    def staleness(self, trajectory: Arrays) -> int:
        """Updates since the oldest weights that it was collected with."""
        return self.updates - int(trajectory["version"].min())

    def _tell(self, batch: Batch, mine: Arrays) -> None:
        """Move the ledgers on, and write down what the others should know of this learner's part."""
        mine["dropped"][0], self._dropped_here = self._dropped_here, 0
        mine["abandoned"][0], self._abandoned_here = self._abandoned_here, 0
        width = self.job.lane_map.envs_per_strand
        for place, (strand, trajectory) in enumerate(batch, self.rank * len(batch)):
            episodes = self.follow(strand, trajectory)
            env_steps = env_steps_of(trajectory)
            count_staleness(self.updates, trajectory, env_steps, mine["staleness"])
            mine["env_steps"][place] = env_steps
            mine["faults"][place] = episodes.faults
            mine["inexact"] += not trajectory["end/exact"][0]
            for end in episodes.ended:
                at = end.row, place * width + end.column
                mine["ended"][at] = 1
                mine["episode_return"][at] = end.episode_return
                mine["episode_length"][at] = end.length
                mine["episode_metrics"][at] = end.metrics

    def _heard(self, total: Arrays) -> None:
        """Count what all learners have told."""
        dropped = int(total["dropped"][0])
        self.env_steps += int(total["env_steps"].sum()) + dropped
        self.dropped += dropped
        self._staleness += total["staleness"]
        self.faults += int(total["faults"].sum() + total["abandoned"][0])
        self.exact = self.exact and not total["inexact"][0]
        if not total["ended"].any():
            return
        at = np.nonzero(total["ended"])
        told = (total[f"episode_{what}"][at] for what in ("return", "length", "metrics"))
        for episode_return, length, metrics in zip(*told, strict=True):
            self.window.add(episode_return, length, metrics)

    def ledger_after(self, strand: int, arrived: Iterable[Arrays]) -> Ledger:
        """Where this strand's lanes will stand after those of the trajectories that are its own."""
        return self.ledgers[strand].after(own(strand, arrived))

    def record(self) -> dict[str, Any]:
        """A line of metrics: the counts as they are, and means of what was measured since the last line. Staleness
        comes as counts of env steps, ``[[updates, env steps], ...]``."""
        staleness = [[int(at), int(self._staleness[at])] for at in np.flatnonzero(self._staleness)]
        self._staleness[:] = 0
        counts = {
            "update": self.updates,
            "env_steps": self.env_steps,
            "episodes": self.window.episodes,
            "faults": self.faults,
            "exact": self.exact and self._in_order,
            "return_mean": self.window.return_mean if self.window.episodes else None,
            "length_mean": self.window.length_mean if self.window.episodes else None,
            **self.window.metric_means,
            "dropped": self.dropped,
            "reused": self.reused,
            "staleness": staleness,
        }
        return counts | self._measured.take() | counts  # an agent's metric must not take the place of a count

    def summary(self) -> dict[str, Any]:
        """What the result says of the learner's side."""
        return {
            "updates": self.updates,
            "env_steps": self.env_steps,
            "dropped": self.dropped,
            "reused": self.reused,
            "episodes": self.window.episodes,
            "faults": self.faults,
            "exact": self.exact and self._in_order,
            "return_mean": self.window.return_mean if self.window.episodes else None,
            "weights_sha256": self._hash(),
        }

    def _hash(self) -> str:
        """Of every trained weight, by name."""
        digest = hashlib.sha256()
        for name, array in sorted(leaves_of(self.learning.save(), "weights/").items()):
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def saved_ledger(self) -> Arrays:
        """The ledgers of this learner's strands, in lane order."""
        return join_saved([self.ledgers[strand].save() for strand in sorted(self.ledgers)])

    def save(self, ledgers: list[Arrays]) -> tuple[dict[str, Arrays], dict[str, Any]]:
        """Copies of everything a resume needs: files of arrays, and counts. ``ledgers`` are all learners', in order."""
        arrays = {
            "learner": {
                **{f"agent/{name}": np.array(array) for name, array in self.learning.save().items()},
                **{f"window/{name}": array for name, array in self.window.save().items()},
                "weights": self.learning.weights().copy(),
                "previous_weights": self.previous_weights.copy(),
            },
            "ledger": join_saved(ledgers),
        }
        counts = {
            "updates": self.updates,
            "env_steps": self.env_steps,
            "dropped": self.dropped,
            "reused": self.reused,
            "episodes": self.window.episodes,
            "faults": self.faults,
            "exact": self.exact,
            "config": to_plain(self.job.config),
        }
        return arrays, counts

    def load(self, arrays: Mapping[str, Arrays], counts: Mapping[str, Any]) -> list[str]:
        """Go on from a checkpoint, whatever the number of actors it was written with. Returns what the user should be
        told of settings that have changed meanwhile and that results depend on: the run is then no longer exact."""
        changes = changes_that_matter(counts.get("config", {}), to_plain(self.job.config))
        self.learning.load(leaves_of(arrays["learner"], "agent/"))
        self.window.load(leaves_of(arrays["learner"], "window/"))
        if self._previous_weights is not None:
            self._previous_weights[:] = arrays["learner"]["previous_weights"]
        for ledger in self.ledgers.values():
            ledger.load(cut_saved(arrays["ledger"], ledger.lanes))
        self.updates = int(counts["updates"])
        self.env_steps = int(counts["env_steps"])
        self.dropped = int(counts["dropped"])
        self.reused = int(counts.get("reused", 0))
        self.faults = int(counts["faults"])
        self.exact = bool(counts["exact"]) and not changes
        return [f"resumed with another {change}: the run is no longer exact" for change in changes]
