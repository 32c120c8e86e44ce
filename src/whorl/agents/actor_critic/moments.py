"""Running means and variances, summed over shards and merged exactly once per update."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whorl.types import Array

_EPS = 1e-8


class RunningMoments:
    """Count, mean and squared deviations of columns, in float64 (Chan, Golub and LeVeque 1983)."""

    def __init__(self, width: int) -> None:
        self.count = np.zeros((), np.float64)
        self.mean = np.zeros(width, np.float64)
        self.square = np.zeros(width, np.float64)

    def sums(self, columns: Array) -> NDArray[np.float64]:
        """[1 + 2 width]: the number of rows of ``columns`` [N, width], the sums of their deviations from the current
        mean, and of the squares of these."""
        deviations = columns - self.mean
        return np.concatenate([[len(columns)], deviations.sum(axis=0), (deviations * deviations).sum(axis=0)])

    def merge(self, sums: Array) -> None:
        """Take in the summed ``sums`` of every shard."""
        added, width = float(sums[0]), len(self.mean)
        if added == 0:
            return
        shift = sums[1 : 1 + width] / added
        total = float(self.count) + added
        self.square += np.maximum(sums[1 + width :] - added * shift**2, 0) + shift**2 * (
            float(self.count) * added / total
        )
        self.mean += shift * (added / total)
        self.count[...] = total

    @property
    def scale(self) -> NDArray[np.float64]:
        """1 / standard deviation; 1 before any row was seen."""
        if self.count == 0:
            return np.ones_like(self.mean)
        return np.asarray(1 / np.sqrt(self.square / self.count + _EPS))
