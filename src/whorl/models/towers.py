"""Policy and value towers with gradients written out: no graph is recorded, and every result goes where it belongs.

For a batch of 256 and two layers of 64, autograd's bookkeeping takes longer than the arithmetic; this takes neither.
"""

from __future__ import annotations

import torch
from torch import Tensor

from whorl.models.network import Network
from whorl.models.torch_forward import Outputs


class _Tower:
    """One tower: hidden layers whose matrices are [in, out], then a head whose matrix is [out, in]."""

    def __init__(self, network: Network, parameters: dict[str, Tensor], name: str) -> None:
        self._name = name
        self._tanh = network.config.activation == "tanh"
        self._layers = [
            (parameters[f"{name}/{i}/weight"], parameters[f"{name}/{i}/bias"]) for i in range(len(network.config.hidden))
        ]
        self._head = parameters[f"{name}/out/weight"]
        self._head_bias = parameters[f"{name}/out/bias"][:, None]
        self._inputs: list[Tensor] = []

    def forward(self, features: Tensor) -> Tensor:
        x = features
        self._inputs = [x]
        for weight, bias in self._layers:
            x = torch.addmm(bias, x, weight)
            x = x.tanh_() if self._tanh else x.relu_()
            self._inputs.append(x)
        return torch.mm(self._head, x.t()).add_(self._head_bias)

    def backward(self, d_outputs: Tensor, gradients: dict[str, Tensor]) -> None:
        name, inputs = self._name, self._inputs
        torch.mm(d_outputs, inputs[-1], out=gradients[f"{name}/out/weight"])
        torch.sum(d_outputs, 1, out=gradients[f"{name}/out/bias"])
        d_outputs, weight = d_outputs.t(), self._head
        for depth in range(len(self._layers) - 1, -1, -1):
            d_x, y = torch.mm(d_outputs, weight), inputs[depth + 1]
            if self._tanh:
                torch.ops.aten.tanh_backward.grad_input(d_x, y, grad_input=d_x)
            else:
                torch.ops.aten.threshold_backward.grad_input(d_x, y, 0, grad_input=d_x)
            torch.mm(inputs[depth].t(), d_x, out=gradients[f"{name}/{depth}/weight"])
            torch.sum(d_x, 0, out=gradients[f"{name}/{depth}/bias"])
            d_outputs, weight = d_x, self._layers[depth][0].t()


class Towers:
    """Forward and backward of a network whose policy and value share nothing."""

    def __init__(self, network: Network, parameters: dict[str, Tensor]) -> None:
        if network.shared:
            raise ValueError("towers are for networks without images and without a core")
        self._log_std = parameters.get("policy/log_std")
        self._policy, self._value = (_Tower(network, parameters, name) for name in ("policy", "value"))

    def forward(self, features: Tensor) -> Outputs:
        """Outputs for ``features`` [N, width]; keeps what ``backward`` needs."""
        policy, value = self._policy.forward(features), self._value.forward(features)
        if self._log_std is not None:
            policy = torch.cat([policy, self._log_std[:, None].expand_as(policy)])
        return Outputs(policy, value[0])

    def backward(self, d_policy: Tensor, d_value: Tensor, gradients: dict[str, Tensor]) -> None:
        """Overwrite ``gradients`` with those of sum(d_policy * policy) + sum(d_value * value)."""
        if self._log_std is not None:
            d_policy, d_log_std = d_policy.chunk(2)
            torch.sum(d_log_std, 1, out=gradients["policy/log_std"])
        self._policy.backward(d_policy, gradients)
        self._value.backward(d_value[None], gradients)
