"""Towers with gradients written out: no graph is recorded, and every result goes where it belongs.

For a batch of 256 and two layers of 64, autograd's bookkeeping takes longer than the arithmetic; this takes neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from whorl.models.config import NetworkConfig
from whorl.models.network import Network
from whorl.models.torch_forward import Inputs, Outputs
from whorl.ops.namespace import AnyArray


class Scratch:
    """Room for what is not kept. Towers that compute one after the other share it: what they write there is written to
    memory that is still in the processor's cache."""

    def __init__(self) -> None:
        self._buffers: dict[tuple[int, int, int], Tensor] = {}

    def rooms(self, layers: Sequence[Tensor]) -> list[Tensor]:
        """One buffer like each layer; every second one is the same, because only neighbours are needed together."""
        found: list[Tensor] = []
        for depth, layer in enumerate(layers):
            key = (*layer.shape, depth % 2)
            if key not in self._buffers:
                self._buffers[key] = torch.empty_like(layer)
            found.append(self._buffers[key])
        return found


class _Room:
    """A tower's buffers for one number of rows. They stay, because the allocator would give such sizes back to the
    system and fault them in again each time."""

    def __init__(self, layers: Sequence[tuple[Tensor, Tensor]], rows: int, scratch: Scratch) -> None:
        self.kept = [bias.new_empty(rows, len(bias)) for _, bias in layers]
        """Outputs of the hidden layers, for the gradients."""
        self.kept_columns = [layer.t() for layer in self.kept]
        self.passing = scratch.rooms(self.kept)
        """Outputs of the hidden layers, or gradients by them, that are used at once."""


class Tower:
    """One tower: hidden layers whose matrices are [in, out], then a head whose matrix is [out, in]."""

    def __init__(
        self, config: NetworkConfig, parameters: Mapping[str, Tensor], name: str, scratch: Scratch | None = None
    ) -> None:
        self._tanh = config.activation == "tanh"
        self._names = [(f"{name}/{i}/weight", f"{name}/{i}/bias") for i in range(len(config.hidden))]
        self._head_names = (f"{name}/out/weight", f"{name}/out/bias")
        self._layers = [(parameters[weight], parameters[bias]) for weight, bias in self._names]
        self._head = parameters[f"{name}/out/weight"]
        self._head_bias = parameters[f"{name}/out/bias"][:, None]
        self._backward_weights = [*(weight.t() for weight, _ in self._layers[1:]), self._head]
        self._by_inputs = self._layers[0][0].t() if self._layers else self._head
        self._scratch = scratch or Scratch()
        self._rooms: dict[int, _Room] = {}
        self._features: Tensor
        self._room: _Room

    def forward(self, features: Tensor, out: Tensor | None = None) -> Tensor:
        """Outputs [out, N] of features [N, in]; keeps what the gradients need."""
        self._features, self._room = features, self._room_for(features)
        return self._through(features, self._room.kept, out)

    def outputs(self, features: Tensor, out: Tensor | None = None) -> Tensor:
        """As ``forward``, but keeps nothing: gradients are of the last ``forward``."""
        return self._through(features, self._room_for(features).passing, out)

    def _through(self, x: Tensor, rooms: list[Tensor], out: Tensor | None) -> Tensor:
        for (weight, bias), room in zip(self._layers, rooms, strict=True):
            x = torch.addmm(bias, x, weight, out=room)
            x = x.tanh_() if self._tanh else x.relu_()
        return torch.mm(self._head, x.t(), out=out).add_(self._head_bias)

    def backward(self, d_outputs: Tensor, gradients: Mapping[str, Tensor]) -> None:
        """Overwrite ``gradients`` with those of sum(d_outputs * outputs)."""
        room, (weight, bias) = self._room, self._head_names
        torch.mm(d_outputs, room.kept[-1] if room.kept else self._features, out=gradients[weight])
        torch.sum(d_outputs, 1, out=gradients[bias])
        d_y = d_outputs.t()
        for depth in range(len(self._layers) - 1, -1, -1):
            d_y = self._through_layer(depth, d_y)
            weight, bias = self._names[depth]
            columns = room.kept_columns[depth - 1] if depth else self._features.t()
            torch.mm(columns, d_y, out=gradients[weight])
            torch.sum(d_y, 0, out=gradients[bias])

    def input_gradient(self, d_outputs: Tensor, start: int) -> Tensor:
        """The gradient [N, in - start] of sum(d_outputs * outputs) by the inputs from column ``start`` on."""
        d_y = d_outputs.t()
        for depth in range(len(self._layers) - 1, -1, -1):
            d_y = self._through_layer(depth, d_y)
        return torch.mm(d_y, self._by_inputs[:, start:])

    def _through_layer(self, depth: int, d_above: Tensor) -> Tensor:
        """From the gradient by what a layer's outputs become to that by its products."""
        y = self._room.kept[depth]
        d_y = torch.mm(d_above, self._backward_weights[depth], out=self._room.passing[depth])
        if self._tanh:
            torch.ops.aten.tanh_backward.grad_input(d_y, y, grad_input=d_y)
        else:
            torch.ops.aten.threshold_backward.grad_input(d_y, y, 0, grad_input=d_y)
        return d_y

    def _room_for(self, features: Tensor) -> _Room:
        rows = features.shape[0]
        found = self._rooms.get(rows)
        if found is None:
            found = self._rooms[rows] = _Room(self._layers, rows, self._scratch)
        return found


class Towers:
    """Forward and backward of a network whose policy and value share nothing. Outputs and their gradients are numpy."""

    gives_numpy = True

    def __init__(self, network: Network, parameters: dict[str, Tensor]) -> None:
        if network.shared:
            raise ValueError("towers are for networks without images and without a core")
        self._log_std = parameters.get("policy/log_std")
        scratch = Scratch()
        self._policy = Tower(network.config, parameters, "policy", scratch)
        self._value = Tower(network.config, parameters, "value", scratch) if network.value_parameters else None

    def values(self, inputs: Inputs) -> NDArray[np.float32]:
        """Values [N] alone, in host memory."""
        assert self._value is not None
        values: NDArray[np.float32] = self._value.outputs(inputs.features)[0].numpy()
        return values

    def outputs(self, inputs: Inputs) -> Outputs:
        """Outputs for a batch; keeps nothing."""
        value = None if self._value is None else self._value.outputs(inputs.features)
        return self._as_outputs(self._policy.outputs(inputs.features), value)

    def host_outputs(self, inputs: Inputs) -> Outputs:
        """As ``outputs``: they are in host memory."""
        return self.outputs(inputs)

    def forward(self, inputs: Inputs) -> Outputs:
        """Outputs for a batch; keeps what ``backward`` needs."""
        value = None if self._value is None else self._value.forward(inputs.features)
        return self._as_outputs(self._policy.forward(inputs.features), value)

    def _as_outputs(self, policy: Tensor, value: Tensor | None) -> Outputs:
        if self._log_std is not None:
            policy = torch.cat([policy, self._log_std[:, None].expand_as(policy)])
        return Outputs(policy.numpy(), policy[0, :0].numpy() if value is None else value[0].numpy())

    def backward(self, d_policy: AnyArray, d_value: AnyArray, gradients: dict[str, Tensor]) -> None:
        """Overwrite ``gradients`` with those of sum(d_policy * policy) + sum(d_value * value)."""
        by_outputs = torch.from_numpy(d_policy)
        if self._log_std is not None:
            by_outputs, by_log_std = by_outputs.chunk(2)
            torch.sum(by_log_std, 1, out=gradients["policy/log_std"])
        self._policy.backward(by_outputs, gradients)
        if self._value is not None:
            self._value.backward(torch.from_numpy(d_value)[None], gradients)
