"""Towers with gradients written out: no graph is recorded, and every result goes where it belongs.

For a batch of 256 and two layers of 64, autograd's bookkeeping takes longer than the arithmetic; this takes neither.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from whorl.models.config import NetworkConfig
from whorl.models.network import Network
from whorl.models.torch_forward import Inputs, Outputs
from whorl.ops.namespace import AnyArray


class Tower:
    """One tower: hidden layers whose matrices are [in, out], then a head whose matrix is [out, in]."""

    def __init__(self, config: NetworkConfig, parameters: Mapping[str, Tensor], name: str) -> None:
        self._name = name
        self._tanh = config.activation == "tanh"
        self._layers = [
            (parameters[f"{name}/{i}/weight"], parameters[f"{name}/{i}/bias"]) for i in range(len(config.hidden))
        ]
        self._head = parameters[f"{name}/out/weight"]
        self._head_bias = parameters[f"{name}/out/bias"][:, None]
        self._backward_weights = [*(weight.t() for weight, _ in self._layers[1:]), self._head]
        self._by_inputs = self._layers[0][0].t() if self._layers else self._head
        self._scratch: dict[int, tuple[list[Tensor], list[Tensor]]] = {}
        self._inputs: list[Tensor] = []

    def forward(self, features: Tensor) -> Tensor:
        """Outputs [out, N] of features [N, in]; keeps what the gradients need."""
        x = features
        self._inputs = [x]
        for (weight, bias), out in zip(self._layers, self._buffers(len(x))[0], strict=True):
            x = torch.addmm(bias, x, weight, out=out)
            x = x.tanh_() if self._tanh else x.relu_()
            self._inputs.append(x)
        return torch.mm(self._head, x.t()).add_(self._head_bias)

    def backward(self, d_outputs: Tensor, gradients: Mapping[str, Tensor]) -> None:
        """Overwrite ``gradients`` with those of sum(d_outputs * outputs)."""
        name, inputs = self._name, self._inputs
        torch.mm(d_outputs, inputs[-1], out=gradients[f"{name}/out/weight"])
        torch.sum(d_outputs, 1, out=gradients[f"{name}/out/bias"])
        d_y = d_outputs.t()
        for depth in range(len(self._layers) - 1, -1, -1):
            d_y = self._through_layer(depth, d_y)
            torch.mm(inputs[depth].t(), d_y, out=gradients[f"{name}/{depth}/weight"])
            torch.sum(d_y, 0, out=gradients[f"{name}/{depth}/bias"])

    def input_gradient(self, d_outputs: Tensor, start: int) -> Tensor:
        """The gradient [N, in - start] of sum(d_outputs * outputs) by the inputs from column ``start`` on."""
        d_y = d_outputs.t()
        for depth in range(len(self._layers) - 1, -1, -1):
            d_y = self._through_layer(depth, d_y)
        return torch.mm(d_y, self._by_inputs[:, start:])

    def _through_layer(self, depth: int, d_above: Tensor) -> Tensor:
        """From the gradient by what a layer's outputs become to that by its products."""
        out, y = self._buffers(len(d_above))[1][depth], self._inputs[depth + 1]
        d_y = torch.mm(d_above, self._backward_weights[depth], out=out)
        if self._tanh:
            torch.ops.aten.tanh_backward.grad_input(d_y, y, grad_input=d_y)
        else:
            torch.ops.aten.threshold_backward.grad_input(d_y, y, 0, grad_input=d_y)
        return d_y

    def _buffers(self, rows: int) -> tuple[list[Tensor], list[Tensor]]:
        # Kept, because the allocator would give such sizes back to the system and fault them in again each time.
        found = self._scratch.get(rows)
        if found is None:
            made = [[self._head.new_empty(rows, len(bias)) for _, bias in self._layers] for _ in range(2)]
            found = self._scratch[rows] = (made[0], made[1])
        return found


class Towers:
    """Forward and backward of a network whose policy and value share nothing. Outputs and their gradients are numpy."""

    gives_numpy = True

    def __init__(self, network: Network, parameters: dict[str, Tensor]) -> None:
        if network.shared:
            raise ValueError("towers are for networks without images and without a core")
        self._log_std = parameters.get("policy/log_std")
        self._policy = Tower(network.config, parameters, "policy")
        self._value = Tower(network.config, parameters, "value") if network.value_parameters else None

    def values(self, inputs: Inputs) -> NDArray[np.float32]:
        """Values [N] alone, in host memory."""
        assert self._value is not None
        values: NDArray[np.float32] = self._value.forward(inputs.features)[0].numpy()
        return values

    def outputs(self, inputs: Inputs) -> Outputs:
        """Outputs for a batch; what ``backward`` needs of the last ``forward`` is lost."""
        return self.forward(inputs)

    def host_outputs(self, inputs: Inputs) -> Outputs:
        """As ``outputs``: they are in host memory."""
        return self.forward(inputs)

    def forward(self, inputs: Inputs) -> Outputs:
        """Outputs for a batch; keeps what ``backward`` needs."""
        policy = self._policy.forward(inputs.features)
        value = policy[:1, :0] if self._value is None else self._value.forward(inputs.features)
        if self._log_std is not None:
            policy = torch.cat([policy, self._log_std[:, None].expand_as(policy)])
        return Outputs(policy.numpy(), value[0].numpy())

    def backward(self, d_policy: AnyArray, d_value: AnyArray, gradients: dict[str, Tensor]) -> None:
        """Overwrite ``gradients`` with those of sum(d_policy * policy) + sum(d_value * value)."""
        by_outputs = torch.from_numpy(d_policy)
        if self._log_std is not None:
            by_outputs, by_log_std = by_outputs.chunk(2)
            torch.sum(by_log_std, 1, out=gradients["policy/log_std"])
        self._policy.backward(by_outputs, gradients)
        if self._value is not None:
            self._value.backward(torch.from_numpy(d_value)[None], gradients)
