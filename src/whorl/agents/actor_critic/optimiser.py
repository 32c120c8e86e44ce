"""Optimisers of one flat tensor: their state and its place in a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from whorl.ops.optimisers import adam_, rmsprop_
from whorl.types import Array, Arrays


class Optimiser(Protocol):
    """Steps against gradients of one flat tensor of parameters."""

    def apply(self, gradient: Tensor, learning_rate: float) -> None:
        """Take one step against ``gradient``."""
        ...

    def save(self) -> Arrays: ...
    def load(self, arrays: Mapping[str, Array]) -> None: ...


class Adam:
    """Adam on one flat tensor."""

    def __init__(self, parameters: Tensor, eps: float) -> None:
        self._parameters, self._eps = parameters, eps
        self._mean, self._square = torch.zeros_like(parameters), torch.zeros_like(parameters)
        self._count = torch.zeros((), dtype=torch.float32, device=parameters.device)

    def apply(self, gradient: Tensor, learning_rate: float) -> None:
        """Take one step against ``gradient``."""
        self._count += 1
        adam_(self._parameters, gradient, self._mean, self._square, self._count, learning_rate, self._eps)

    def save(self) -> Arrays:
        """Running means of gradients and of their squares, and the number of steps."""
        count = np.array(int(self._count), np.int64)
        return {"mean": self._mean.cpu().numpy(), "square": self._square.cpu().numpy(), "count": count}

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Go on from what ``save`` gave."""
        self._mean.copy_(torch.from_numpy(arrays["mean"].copy()))
        self._square.copy_(torch.from_numpy(arrays["square"].copy()))
        self._count.fill_(int(arrays["count"]))


class RMSprop:
    """RMSprop on one flat tensor."""

    def __init__(self, parameters: Tensor, eps: float) -> None:
        self._parameters, self._eps = parameters, eps
        # Ones, as in TensorFlow: a start from zero makes the first steps huge.
        self._square = torch.ones_like(parameters)

    def apply(self, gradient: Tensor, learning_rate: float) -> None:
        """Take one step against ``gradient``."""
        rmsprop_(self._parameters, gradient, self._square, learning_rate, self._eps)

    def save(self) -> Arrays:
        """The running mean of squared gradients."""
        return {"square": self._square.cpu().numpy()}

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Go on from what ``save`` gave."""
        self._square.copy_(torch.from_numpy(arrays["square"].copy()))
