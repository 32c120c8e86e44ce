"""What learners tell each other of a batch besides gradients: counts, staleness, and the episodes that ended in it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from whorl.job import Job
from whorl.trajectory.episodes import told_metrics
from whorl.types import Array, Arrays, Field, Layout

MAX_COUNTED_STALENESS = 255
"""Staler experience is counted with this."""


def tally_layout(job: Job, more: Sequence[Field] = ()) -> Layout:
    """What learners tell each other besides gradients. Each fills the places of its own trajectories in the batch (a
    place is a trajectory, a column a lane of it), so that the sum is the union."""
    lanes = job.lane_map
    places, metrics = lanes.learners * lanes.trajectories, len(told_metrics(job.env))
    fields = tally_fields(places, job.agent_spec.rows, lanes.batch_lanes, metrics)
    return Layout((*fields, *more))


def tally_fields(places: int, rows: int, columns: int, metrics: int) -> tuple[Field, ...]:
    """What every kind of learner tells: counts of so many trajectories, and the episodes that ended in their rows."""
    return (
        Field("env_steps", (places,), "int64"),
        Field("faults", (places,), "int64"),
        Field("dropped", (1,), "int64"),
        Field("abandoned", (1,), "int64"),
        Field("staleness", (MAX_COUNTED_STALENESS + 1,), "int64"),
        Field("inexact", (1,), "int64"),
        Field("ended", (rows, columns), "uint8"),
        Field("episode_return", (rows, columns), "float64"),
        Field("episode_length", (rows, columns), "int64"),
        Field("episode_metrics", (rows, columns, metrics), "float64"),
    )


def count_staleness(updates: int, trajectory: Arrays, env_steps: int, counts: Array) -> None:
    """Add a trajectory's env steps to ``counts``, by the number of updates since the weights they were taken with.
    Whoever counts may know of fewer updates than the actor did: what is newer counts as fresh."""
    version = trajectory["version"]
    if version[0] == version[-1]:
        counts[min(max(updates - int(version[0]), 0), MAX_COUNTED_STALENESS)] += env_steps
        return
    steps = np.count_nonzero(trajectory["valid"][: len(version)], axis=1)
    np.add.at(counts, np.clip(updates - version, 0, MAX_COUNTED_STALENESS), steps)
