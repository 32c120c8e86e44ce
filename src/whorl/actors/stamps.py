"""What an actor stamps on a trajectory when it is complete, so that it can be read without the one before."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from whorl.agents.contract import AgentSpec
from whorl.trajectory.episodes import episodes_of
from whorl.types import Array, Arrays


class Stamps:
    """The running sums of an actor's lanes: they go on from one trajectory to the next."""

    def __init__(self, spec: AgentSpec) -> None:
        self._discount = spec.discount if spec.wants_discounted_return else None
        self._handed_over = 0
        self._sums: Arrays = {}

    def begin(self, order: Mapping[str, Any]) -> None:
        """Where a start order says."""
        self._handed_over = int(order["handed_over"])
        self._sums = {name: np.array(order[name]) for name in ("episode_return", "episode_length", "discounted")}

    def stamp(self, trajectory: Arrays, lanes: slice = slice(None)) -> None:
        """Complete a trajectory of these lanes, counted from the actor's first."""
        for name in ("episode_return", "episode_length"):
            trajectory[f"begin/{name}"][:] = self._sums[name][lanes]
        after = episodes_of(trajectory)
        self._sums["episode_return"][lanes] = after.episode_return
        self._sums["episode_length"][lanes] = after.episode_length
        if self._discount is not None:
            self._trace(trajectory, self._sums["discounted"][lanes], self._discount)
            self._sums["discounted"][lanes] = trajectory["discounted_return"][-1]
        for name, sums in self._sums.items():
            trajectory[f"end/{name}"][:] = sums[lanes]
        env_steps = int(np.count_nonzero(trajectory["valid"][: len(trajectory["reward"])]))
        self._handed_over += env_steps
        trajectory["env_steps"][0] = env_steps
        trajectory["handed_over"][0] = self._handed_over
        trajectory["finished_at"][0] = time.time()

    def _trace(self, trajectory: Arrays, running: Array, discount: float) -> None:
        first, reward, trace = trajectory["first"], trajectory["reward"], trajectory["discounted_return"]
        for row in range(len(reward)):
            running = np.where(first[row], 0.0, running * discount).astype(np.float32) + reward[row]
            trace[row] = running
