"""Critics of state and action with gradients written out: by their parameters, and by the action."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from whorl.models.bounded_actor import BoundedActor
from whorl.models.towers import Scratch, Tower


class Critics:
    """The values of several critics. Inputs are [N, features and then the scaled action]. Values are overwritten by the
    next ones of as many rows."""

    def __init__(self, network: BoundedActor, parameters: Mapping[str, Tensor], scratch: Scratch) -> None:
        self._towers = [Tower(network.config, parameters, name, scratch) for name in network.critic_names]
        self._width = network.encoder.width
        self._values: dict[int, tuple[Tensor, list[Tensor]]] = {}

    def forward(self, inputs: Tensor) -> Tensor:
        """[critics, N]; keeps what the gradients need."""
        values, rows = self._room_for(inputs)
        for tower, row in zip(self._towers, rows, strict=True):
            tower.forward(inputs, row)
        return values

    def values(self, inputs: Tensor) -> Tensor:
        """As ``forward``, but keeps nothing."""
        values, rows = self._room_for(inputs)
        for tower, row in zip(self._towers, rows, strict=True):
            tower.outputs(inputs, row)
        return values

    def first_value(self, inputs: Tensor) -> Tensor:
        """[1, N]: of the first critic alone, for ``action_gradient`` of one row."""
        return self._towers[0].forward(inputs, self._room_for(inputs)[1][0])

    def backward(self, d_values: Tensor, gradients: Mapping[str, Tensor]) -> None:
        """Overwrite ``gradients`` with those of sum(d_values * values) by the critics' parameters."""
        for row, tower in enumerate(self._towers):
            tower.backward(d_values[row : row + 1], gradients)

    def action_gradient(self, d_values: Tensor) -> Tensor:
        """The gradient [action size, N] of sum(d_values * values) by the action; the parameters are left alone."""
        towers = self._towers[: d_values.shape[0]]
        parts = [tower.input_gradient(d_values[row : row + 1], self._width) for row, tower in enumerate(towers)]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total.t()

    def _room_for(self, inputs: Tensor) -> tuple[Tensor, list[Tensor]]:
        rows = inputs.shape[0]
        found = self._values.get(rows)
        if found is None:
            values = inputs.new_empty(len(self._towers), rows)
            found = self._values[rows] = (values, [values[row : row + 1] for row in range(len(self._towers))])
        return found
