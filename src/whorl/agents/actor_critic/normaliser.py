"""Running normalisation of observations and rewards.

The statistics change only here, once per update, and travel with the weights: new ones come into force with the new
weights, for learning and acting alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from whorl.agents.actor_critic.acting import moments_width
from whorl.agents.actor_critic.moments import RunningMoments
from whorl.models.encoding import flat_rows
from whorl.models.network import Network
from whorl.types import Array, Arrays


class Normaliser:
    """Moments of every normalised observation element and of the discounted return, side by side as columns."""

    def __init__(self, network: Network, rewards: bool) -> None:
        self._leaves = network.encoder.normalised
        self._rewards = rewards
        self._moments = RunningMoments(moments_width(network))

    @property
    def active(self) -> bool:
        """Whether anything is normalised at all."""
        return bool(self._leaves) or self._rewards

    @property
    def reward_scale(self) -> float | None:
        """What rewards are multiplied by: 1 / deviation of the discounted return. None: left alone."""
        return float(self._moments.scale[-1]) if self._rewards else None

    def sums(self, trajectory: Arrays) -> NDArray[np.float64]:
        """A shard's sums over its valid rows."""
        rows, lanes = trajectory["reward"].shape
        valid = trajectory["valid"][:rows].reshape(-1)
        columns = [flat_rows(trajectory[f"obs/{leaf.name}"][:rows]).reshape(rows * lanes, -1) for leaf in self._leaves]
        columns.append(trajectory["discounted_return"].reshape(-1, 1))
        return self._moments.sums(np.concatenate(columns, axis=1)[valid])

    def merge(self, sums: Array) -> None:
        """Take in the sums of the whole batch."""
        self._moments.merge(sums)

    def publish(self, weights: Arrays) -> None:
        """Write the statistics of observations into the weights."""
        start, mean, scale = 0, self._moments.mean, self._moments.scale
        for leaf in self._leaves:
            part = slice(start, start + math.prod(leaf.shape))
            weights[f"norm/{leaf.name}/mean"][...] = mean[part].reshape(leaf.shape)
            weights[f"norm/{leaf.name}/scale"][...] = scale[part].reshape(leaf.shape)
            start = part.stop

    def save(self) -> Arrays:
        """Counts, means and squared deviations."""
        return {"count": self._moments.count, "mean": self._moments.mean, "square": self._moments.square}

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Go on from what ``save`` gave."""
        for name, array in self.save().items():
            array[...] = arrays[name]
