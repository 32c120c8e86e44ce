"""What an agent says of whole trajectories (``postprocess``: n-step targets, priorities), and on which ranks.

An environment of several ranks leaves most of them idle while nobody steps it. With ``workflow.postprocess = "ranks"``
they share the lanes of a trajectory out among themselves. A lane's result does not depend on the lanes beside it, so
that it is the same, bit for bit, wherever it is computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from whorl.agents.contract import Postprocess
from whorl.envs.parallel.crew import Crew, current_crew
from whorl.job import Job
from whorl.trajectory.layout import PER_TRAJECTORY, cut_lanes, has_rows
from whorl.types import Array, Arrays, Field, Layout

_READ_PER_LANE = "state/"
PRIORITY = "priority"
_NUMBER = -2
"""Under which a crew knows its scores; environments count from 0."""


class Scores:
    """The actor's: of one trajectory after the other."""

    def __init__(self, scores: Postprocess, weights: Layout, shared: bool) -> None:
        """``shared``: with the other ranks of the environments, which have been told the same."""
        crew = current_crew() if shared else None
        self._alone = scores
        self._weights = weights
        self._together = None if crew is None or crew.size == 1 else _Part(crew, scores)
        self._told_version = -1

    def __call__(self, weights: Array, views: Arrays, version: int, trajectory: Arrays) -> Array:
        """Priorities of every lane. ``views`` are those of the flat ``weights``; a new ``version`` of them is told to
        the other ranks once."""
        if self._together is None:
            return self._alone(views, trajectory)
        fresh, self._told_version = version != self._told_version, version
        return self._together.lead(self._weights, weights if fresh else None, trajectory)


class _Part:
    """One rank's part of a crew's scores; at mates the crew calls its methods."""

    def __init__(self, crew: Crew, scores: Postprocess) -> None:
        self._crew, self._scores = crew, scores
        self._weights: Arrays = {}
        crew.admit(_NUMBER, self)

    def lead(self, layout: Layout, fresh: Array | None, trajectory: Arrays) -> Array:
        """Tell the mates what there is, and do one's own part."""
        read = {name: array for name, array in trajectory.items() if _is_read(name)}
        rows = Layout(tuple(Field(name, array.shape, array.dtype.name) for name, array in read.items()))
        told = rows.allocate()
        for name, array in rows.views(told).items():
            array[...] = read[name]
        arguments = {"weights": _fields(layout) if fresh is not None else [], "rows": _fields(rows)}
        found: list[Array] = self._crew.call(
            _NUMBER, "score", lambda: self.score(**arguments, given=(fresh, told)), {"args": [], "kwargs": arguments}
        )
        return np.concatenate(found, axis=1)

    def score(
        self, weights: list[Any], rows: list[Any], given: tuple[Array | None, Array | None] = (None, None)
    ) -> list[Array]:
        """All ranks: take the data over, see to one's own lanes; the first one gets everybody's."""
        fresh, told = given
        if weights:
            layout = _layout(weights)
            self._weights = layout.views(self._crew.share(fresh, layout.size_bytes))
        layout = _layout(rows)
        trajectory = layout.views(self._crew.share(told, layout.size_bytes))
        lanes = trajectory["first"].shape[1]
        bounds = [lanes * rank // self._crew.size for rank in range(self._crew.size + 1)]
        mine, width = self._crew.rank, np.diff(bounds)
        found = np.zeros((0, 0), np.float32)
        if width[mine]:
            found = self._scores(self._weights, cut_lanes(trajectory, bounds[mine], bounds[mine + 1]))
        collected = self._crew.collect(np.ascontiguousarray(found, np.float32).reshape(-1).view(np.uint8))
        parts = zip(collected, width, strict=False)  # a mate collects nothing
        return [part.view(np.float32).reshape(-1, lanes) for part, lanes in parts if lanes]

    def close(self) -> None:
        """The crew's end: nothing is held."""


def admit_scores(job: Job, crew: Crew) -> None:
    """At a mate: be ready to take part, where the workflow has it so."""
    if job.config.workflow.postprocess == "ranks" and job.agent.postprocess is not None:
        _Part(crew, job.agent.postprocess(job.config.agent, job.env))


def _is_read(name: str) -> bool:
    """What can be said of a trajectory follows from its rows and the state before them."""
    return name.startswith(_READ_PER_LANE) or (has_rows(name) and name not in PER_TRAJECTORY and name != PRIORITY)


def _fields(layout: Layout) -> list[Any]:
    return [[field.name, list(field.shape), field.dtype] for field in layout.fields]


def _layout(fields: list[Any]) -> Layout:
    return Layout(tuple(Field(name, tuple(shape), dtype) for name, shape, dtype in fields))
