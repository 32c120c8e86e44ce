"""Phases of a gradient step: what each moves, what its gradient says, and what an update's steps measured of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from whorl.agents.off_policy.spec import SUMS_WIDTH
from whorl.types import Array


@dataclass(frozen=True)
class Phase:
    """One kind of gradient step: which part of the parameters it moves, and how."""

    part: slice
    """Of the flat tensor."""
    learning_rate: float
    adam_eps: float = 1e-8
    max_grad_norm: float = math.inf
    metrics: tuple[str, ...] = ("loss",)
    """What its sums hold after the number of rows; reported as means."""


class Contributed(NamedTuple):
    """What a phase's gradient says besides itself."""

    sums: Sequence[float] | Array
    """The number of rows, then the phase's metrics, each summed over the rows."""
    errors: Array | None = None
    """Temporal-difference errors [N] for the priorities."""


class Measured:
    """What one phase's gradient steps measured in an update."""

    def __init__(self) -> None:
        self._sums = np.zeros(SUMS_WIDTH)
        self._norms = 0.0
        self._steps = 0

    def add(self, sums: Array, norm: float) -> None:
        """One gradient step's sums, and the norm of its gradient."""
        self._sums += sums
        self._norms += norm
        self._steps += 1

    def means(self, phase: str, names: Sequence[str]) -> dict[str, float]:
        """Over the rows; of the gradient's norm, over the steps."""
        rows, *sums = self._sums.tolist()
        means = {name: total / rows for name, total in zip(names, sums, strict=False)}
        means[f"{phase}_gradient_norm"] = self._norms / self._steps
        return means
