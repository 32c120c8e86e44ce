"""Learning from windows: each holds the newest trajectory of an actor, and is overwritten whether it was read or not.

Learners tell each other at every update what they have read, and the owner of each actor where its newest trajectory
begins. So all keep the same account of what became of every env step that was handed over.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from whorl.engines.contract import Board, Role, Wait
from whorl.job import Job
from whorl.learners.learner import Batch
from whorl.learners.owned_actors import HEAD
from whorl.learners.shared import FromAnybody, SharedLearner, wait_for_any
from whorl.learners.tally import tally_layout
from whorl.trajectory.layout import env_steps_of
from whorl.types import Array, Arrays, Field, Layout


class Windows(FromAnybody):
    """Reads windows chosen at random among those that hold something new."""

    def __init__(self, learner: SharedLearner, windows: Mapping[int, Board]) -> None:
        super().__init__(learner)
        self._windows = windows
        self._most_reads = learner.job.config.workflow.max_reuse
        self._reads: dict[int, tuple[int, int]] = {}
        """By actor: the version of its window read last, and how often it was."""
        layout = next(iter(windows.values())).layout
        self._buffers = [layout.allocate() for _ in range(self._needed)]
        self._views = [layout.views(buffer) for buffer in self._buffers]
        self._batch: dict[tuple[int, int], Arrays] = {}
        """By actor and version, in the order they were read."""

    def claim(self) -> bool:
        """Read until the batch is complete, or nobody has anything new."""
        while len(self._batch) < self._needed:
            new = [actor for actor, window in self._windows.items() if self._may_read(actor, window.version)]
            if not new:
                return False
            self._read(self._draws.pick(new, self._learner.updates))
        return True

    def _may_read(self, actor: int, version: int) -> bool:
        read, times = self._reads.get(actor, (-1, 0))
        return version > read or (
            version == read >= 0 and times < self._most_reads and (actor, read) not in self._batch
        )

    def _read(self, actor: int) -> None:
        place = len(self._batch)
        version = self._windows[actor].read(self._buffers[place])
        if self._is_stale(self._views[place]):
            self._reads[actor] = version, self._most_reads  # left to be overwritten
            return
        before, times = self._reads.get(actor, (-1, 0))
        self._reads[actor] = version, times + 1 if version == before else 1
        self._batch[actor, version] = self._views[place]

    def batch(self) -> Batch:
        """What was read."""
        return [(actor, trajectory) for (actor, _), trajectory in self._batch.items()]

    def release(self) -> None:
        """It was read out of the windows: nobody waits for it."""
        self._batch = {}

    @property
    def wait(self) -> Wait:
        """Until a window changes."""
        return wait_for_any((window.changed for window in self._windows.values()), "newer windows", self._windows)


def window_tally(job: Job) -> Layout:
    """What learners that read windows tell each other."""
    lanes = job.lane_map
    places = lanes.learners * lanes.trajectories
    more = (
        Field("read/actor", (places,), "int64"),
        Field("read/begin", (places,), "int64"),
        Field("newest/begin", (lanes.actors,), "int64"),
    )
    return tally_layout(job, more)


class WindowLearner(SharedLearner):
    """Tells what it has read, and counts what everybody has."""

    def __init__(self, job: Job, rank: int, role: Role, windows: Mapping[int, Board]) -> None:
        own = job.lane_map.actors_of_learner(rank)
        super().__init__(job, rank, role, [windows[actor] for actor in own])
        self._heads = {actor: _Head(windows[actor]) for actor in own}
        self._settled = np.zeros(job.lane_map.actors, np.int64)
        """Of each actor: the env steps up to which it is known what became of them."""

    def tally_layout(self) -> Layout:
        """With what was read."""
        return window_tally(self.job)

    def _tell(self, batch: Batch, mine: Arrays) -> None:
        super()._tell(batch, mine)
        for place, (actor, trajectory) in enumerate(batch, self.rank * len(batch)):
            mine["read/actor"][place] = actor
            mine["read/begin"][place] = begin_of(trajectory)
        for actor, head in self._heads.items():
            mine["newest/begin"][actor] = head.begin()

    def _heard(self, total: Arrays) -> None:
        env_steps, faults = total["env_steps"].copy(), total["faults"].copy()
        again, passed_over = account(self._settled, total)
        self.reused += int(env_steps[again].sum())
        env_steps[again] = faults[again] = 0
        ended = total["ended"].reshape(len(total["ended"]), len(again), -1) * ~again[:, None]
        counted = {"env_steps": env_steps, "faults": faults, "dropped": total["dropped"] + passed_over}
        super()._heard({**total, **counted, "ended": ended.reshape(total["ended"].shape)})


def begin_of(trajectory: Arrays) -> int:
    """Env steps that its actor had handed over before it."""
    return int(trajectory["handed_over"][0]) - env_steps_of(trajectory)


def account(settled: Array, total: Arrays) -> tuple[Array, int]:
    """What became of the env steps since the last update: which of the trajectories read were read before, and how many
    env steps were overwritten and read by nobody. Moves ``settled`` on.

    No learner reads anything older than what any of them read an update before, since they meet in between.
    """
    again, passed_over = np.zeros(len(total["read/begin"]), np.bool_), 0
    for place in np.argsort(total["read/begin"], kind="stable"):
        actor, begin = total["read/actor"][place], total["read/begin"][place]
        if begin < settled[actor]:
            again[place] = True
            continue
        passed_over += int(begin - settled[actor])
        settled[actor] = begin + total["env_steps"][place]
    overwritten = np.maximum(total["newest/begin"] - settled, 0)
    settled += overwritten
    return again, passed_over + int(overwritten.sum())


class _Head:
    """The beginning of an actor's window."""

    def __init__(self, window: Board) -> None:
        self._window, self._version = window, -1
        names = [field.name for field in window.layout.fields]
        head = Layout(window.layout.fields[: 1 + max(names.index(name) for name in HEAD)])
        self._buffer = head.allocate()
        self._views = head.views(self._buffer)

    def begin(self) -> int:
        """Env steps handed over before the newest trajectory."""
        if self._window.version > self._version:
            self._version = self._window.read(self._buffer)
        return begin_of(self._views)
