"""News: what learners must know of trajectories that only replays see. They travel in the batches."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from whorl.learners.tally import MAX_COUNTED_STALENESS, tally_fields
from whorl.trajectory.episodes import EpisodeEnd
from whorl.types import Array, Arrays, Field, Layout

COUNTS = ("env_steps", "faults", "inexact", "reused", "late_priorities", "episodes")
"""``reused``: draws of what had been drawn before. ``late_priorities``: of entries that were overwritten meanwhile."""
TOLD_EPISODES = 128
"""Of each batch, the newest; more than a run's window holds. All are counted."""
Told = tuple[float, int, tuple[float, ...]]
"""An episode's return, length and metrics."""
_WHAT = ("return", "length", "metrics")
_PREFIX = "news/"


def news_fields(metrics: int) -> tuple[Field, ...]:
    """The news of a batch, where so many metrics are told of each episode."""
    return (
        Field(f"{_PREFIX}counts", (len(COUNTS),), "int64"),
        Field(f"{_PREFIX}staleness", (MAX_COUNTED_STALENESS + 1,), "int64"),
        Field(f"{_PREFIX}told", (1,), "int64"),
        Field(f"{_PREFIX}episode_return", (TOLD_EPISODES,), "float64"),
        Field(f"{_PREFIX}episode_length", (TOLD_EPISODES,), "int64"),
        Field(f"{_PREFIX}episode_metrics", (TOLD_EPISODES, metrics), "float64"),
    )


def news_tally_layout(learners: int, metrics: int) -> Layout:
    """What learners tell each other of their news: a column of episodes for each."""
    more = tuple(Field(name, (1,), "int64") for name in ("reused", "late_priorities", "episodes"))
    return Layout((*tally_fields(1, TOLD_EPISODES, learners, metrics), *more))


class News:
    """Counts and ended episodes."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(COUNTS, 0)
        self.staleness = np.zeros(MAX_COUNTED_STALENESS + 1, np.int64)
        self._episodes: list[Told] = []

    def ended(self, episodes: list[EpisodeEnd]) -> None:
        """Episodes that ended."""
        self.counts["episodes"] += len(episodes)
        self._tell([(end.episode_return, end.length, end.metrics) for end in episodes])

    def add(self, other: News) -> None:
        """Also tell what another was to tell, later than one's own."""
        for name, count in other.counts.items():
            self.counts[name] += count
        self.staleness += other.staleness
        self._tell(other._episodes)

    def _tell(self, episodes: list[Told]) -> None:
        self._episodes = [*self._episodes, *episodes][-TOLD_EPISODES:]

    def write(self, arrays: Arrays, prefix: str = _PREFIX) -> None:
        """Into the news of a batch."""
        count = len(self._episodes)
        arrays[f"{prefix}counts"][:] = list(self.counts.values())
        arrays[f"{prefix}staleness"][:] = self.staleness
        arrays[f"{prefix}told"][0] = count
        for row, told in enumerate(self._episodes):
            for what, value in zip(_WHAT, told, strict=True):
                arrays[f"{prefix}episode_{what}"][row] = value

    @classmethod
    def read(cls, arrays: Mapping[str, Array], prefix: str = _PREFIX) -> News:
        """The inverse of ``write``."""
        news = cls()
        news.counts = dict(zip(COUNTS, arrays[f"{prefix}counts"].tolist(), strict=True))
        news.staleness += arrays[f"{prefix}staleness"]
        told = int(arrays[f"{prefix}told"][0])
        returns, lengths, metrics = (arrays[f"{prefix}episode_{what}"][:told].tolist() for what in _WHAT)
        news._episodes = list(zip(returns, lengths, map(tuple, metrics), strict=True))
        return news

    def write_tally(self, tally: Arrays, learner: int) -> None:
        """Into what learners sum."""
        for name, count in self.counts.items():
            tally[name][0] += count
        tally["staleness"] += self.staleness
        for row, told in enumerate(self._episodes):
            tally["ended"][row, learner] = 1
            for what, value in zip(_WHAT, told, strict=True):
                tally[f"episode_{what}"][row, learner] = value

    def save(self, metrics: int) -> Arrays:
        """For a checkpoint."""
        layout = Layout(news_fields(metrics))
        arrays = layout.views(layout.allocate())
        self.write(arrays)
        return arrays
