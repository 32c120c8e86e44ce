"""The epsilon ladder: some lanes explore, others do nearly their best (Horgan et al. 2018, section 4.1).

epsilon_i = epsilon^(1 + i * steepness / (N - 1))        lane i of N

Epsilon itself is the agent's, which may lower it while the run goes on: at 1 it is 1 for all.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whorl.types import Arrays


def ladder_powers(lanes: range, of: int, steepness: float) -> NDArray[np.float32]:
    """The powers of some of the run's lanes.

    >>> [round(float(0.4**power), 5) for power in ladder_powers(range(3), 3, 7.0)]
    [0.4, 0.01619, 0.00066]
    """
    return (1 + np.arange(lanes.start, lanes.stop) * steepness / max(1, of - 1)).astype(np.float32)


class Ladder:
    """Spreads a weight over the lanes of an actor."""

    def __init__(self, weights: Arrays, name: str, powers: NDArray[np.float32]) -> None:
        self._weights, self._name, self._powers = weights, name, powers
        self._base = weights[name]

    def spread(self) -> None:
        """After new weights were read."""
        self._weights[self._name] = self._base**self._powers
