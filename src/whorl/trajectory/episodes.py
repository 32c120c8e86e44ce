"""Episodes as one trajectory shows them: whoever reads it needs not have seen the one before.

Its actor has stamped the running return and length of each lane's episode on it (see ``whorl.actors.stamps``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from whorl.trajectory.layout import METRIC
from whorl.types import Array, Arrays, EnvSpec, leaves_of

TRUE_RETURN = "episode_return"


def told_metrics(env: EnvSpec) -> tuple[str, ...]:
    """The names of the metrics that come with an episode's return and length."""
    return tuple(name for name in env.episode_metrics if name != TRUE_RETURN)


class EpisodeEnd(NamedTuple):
    """An episode that ended by itself (not by a fault)."""

    row: int
    column: int
    episode_return: float
    length: int
    metrics: tuple[float, ...] = ()
    """What the environment told of it, in the order of its names but for ``episode_return``."""


@dataclass(frozen=True)
class Episodes:
    """What ended in a trajectory, and the sums of the episodes that are under way after it."""

    ended: list[EpisodeEnd]
    faults: int
    episode_return: Array
    """[B] float64, of the episode so far."""
    episode_length: Array
    """[B] int64; 0 where no step of it was taken."""


def episodes_of(trajectory: Arrays) -> Episodes:
    """Go through the rows of a trajectory."""
    rows = len(trajectory["reward"])
    valid, first = trajectory["valid"][:rows], trajectory["first"]
    ended = (trajectory["terminated"] | trajectory["truncated"]) & valid
    episode_return, episode_length = trajectory["begin/episode_return"], trajectory["begin/episode_length"]
    over, faults = ended, 0
    if first.any():
        # A first row though an episode is under way: that one was given up before this trajectory.
        faults = int(np.count_nonzero(first[0] & (episode_length > 0)))
        # An episode without a step whose row is not its first one is over: that row shows its final observation.
        is_final_row = (episode_length == 0) & ~first[0]
        # A first row follows a final-observation row, or a fault: a row that is not valid though none ended before it.
        cut = first[1 : rows + 1] & ~valid
        cut[1:] &= ~ended[:-1]
        cut[0] &= ~is_final_row
        over = ended | cut
        episode_return = np.where(first[0], 0.0, episode_return)
        episode_length = np.where(first[0], 0, episode_length)
    reward_sum = np.cumsum(np.where(valid, trajectory["reward"], 0.0), axis=0, dtype=np.float64)
    step_sum = np.cumsum(valid, axis=0)
    metrics = leaves_of(trajectory, METRIC)
    found: list[EpisodeEnd] = []
    if not over.any():
        return Episodes(found, faults, episode_return + reward_sum[-1], episode_length + step_sum[-1])
    episode_return, episode_length = episode_return.copy(), episode_length.copy()
    for row, column in zip(*np.nonzero(over), strict=True):
        if ended[row, column]:
            total = episode_return[column] + reward_sum[row, column]
            length = episode_length[column] + step_sum[row, column]
            told = {name: float(metric[row, column]) for name, metric in metrics.items()}
            total = told.pop(TRUE_RETURN, total)
            if not math.isnan(total):  # else the environment says that its own episode goes on
                found.append(EpisodeEnd(int(row), int(column), float(total), int(length), tuple(told.values())))
        else:
            faults += 1
        episode_return[column] = -reward_sum[row, column]
        episode_length[column] = -step_sum[row, column]
    return Episodes(found, faults, episode_return + reward_sum[-1], episode_length + step_sum[-1])
