"""Critics of state and action with gradients written out: by their parameters, and by the action."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from whorl.models.bounded_actor import BoundedActor
from whorl.models.towers import Tower


class Critics:
    """The values of several critics. Inputs are [N, features and then the scaled action]."""

    def __init__(self, network: BoundedActor, parameters: Mapping[str, Tensor]) -> None:
        self._towers = [Tower(network.config, parameters, name) for name in network.critic_names]
        self._width = network.encoder.width

    def values(self, inputs: Tensor) -> Tensor:
        """[critics, N]; keeps what the gradients need."""
        values = [tower.forward(inputs) for tower in self._towers]
        return values[0] if len(values) == 1 else torch.cat(values)

    def first_value(self, inputs: Tensor) -> Tensor:
        """[1, N]: of the first critic alone, for ``action_gradient`` of one row."""
        return self._towers[0].forward(inputs)

    def backward(self, d_values: Tensor, gradients: Mapping[str, Tensor]) -> None:
        """Overwrite ``gradients`` with those of sum(d_values * values) by the critics' parameters."""
        for tower, d_value in zip(self._towers, d_values, strict=True):
            tower.backward(d_value[None], gradients)

    def action_gradient(self, d_values: Tensor) -> Tensor:
        """The gradient [action size, N] of sum(d_values * values) by the action; the parameters are left alone."""
        towers = self._towers[: len(d_values)]
        parts = [tower.input_gradient(row[None], self._width) for tower, row in zip(towers, d_values, strict=True)]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total.t()
