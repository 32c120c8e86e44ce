"""Target networks: slow copies of a part of the parameters."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from whorl.models.flat import FlatParameters
from whorl.types import Array


@dataclass(frozen=True)
class Following:
    """Which parameters a target network copies, and how it follows them."""

    part: slice
    """Of the flat tensor."""
    tau: float
    """It moves this share of the way: 1 copies (a hard update), less is soft."""
    every: int = 1
    """Gradient steps between its moves."""


class TargetNetwork:
    """A copy of a part of the parameters that follows them slowly (Mnih et al. 2015; Lillicrap et al. 2016)."""

    def __init__(self, parameters: FlatParameters, following: Following) -> None:
        self.following = following
        self._online = parameters.flat[following.part]
        whole = parameters.flat.clone()
        self._flat = whole[following.part]
        self.tensors: dict[str, Tensor] = {
            name: tensor
            for name, tensor in parameters.named(whole).items()
            if following.part.start <= tensor.storage_offset() < following.part.stop
        }
        """The copied parameters by name."""

    @torch.no_grad()
    def follow(self, gradient_steps: int) -> bool:
        """Move towards the parameters, if it is time after this many gradient steps. Returns whether it moved."""
        if gradient_steps % self.following.every:
            return False
        if self.following.tau == 1:
            self._flat.copy_(self._online)
        else:
            self._flat.lerp_(self._online, self.following.tau)
        return True

    def save(self) -> Array:
        """The copy, flat."""
        array: Array = self._flat.cpu().numpy()
        return array

    def load(self, array: Array) -> None:
        """Go on from what ``save`` gave."""
        self._flat.copy_(torch.from_numpy(array.copy()))
