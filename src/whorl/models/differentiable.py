"""A network as learners use it: forward, then backward from the gradients of its outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from whorl.models.network import Network
from whorl.models.precision import Precision
from whorl.models.torch_forward import Inputs, Outputs, forward
from whorl.models.towers import Towers
from whorl.ops.namespace import AnyArray


class Differentiable(Protocol):
    """Forward and backward of one batch. Called without autograd."""

    gives_numpy: bool
    """Outputs and their gradients are numpy arrays, else tensors."""

    def values(self, inputs: Inputs) -> NDArray[np.float32]:
        """Values [N] alone, in host memory."""
        ...

    def outputs(self, inputs: Inputs) -> Outputs:
        """Outputs for a batch; keeps nothing."""
        ...

    def host_outputs(self, inputs: Inputs) -> Outputs:
        """Outputs in host memory, not to be differentiated."""
        ...

    def forward(self, inputs: Inputs) -> Outputs:
        """Outputs for a batch; keeps what ``backward`` needs."""
        ...

    def backward(self, d_policy: AnyArray, d_value: AnyArray, gradients: dict[str, Tensor]) -> None:
        """Overwrite ``gradients`` with those of sum(d_policy * policy) + sum(d_value * value)."""
        ...


class Autograd:
    """Any network, differentiated by autograd and, if asked for, compiled. What images go through is computed in
    ``precision``; all parameters and everything else are float32."""

    gives_numpy = False

    def __init__(
        self, network: Network, parameters: dict[str, Tensor], compiled: bool, precision: Precision = "float32"
    ) -> None:
        self._network = network
        self._image_dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
        self._leaves = {name: tensor.detach().requires_grad_() for name, tensor in parameters.items()}
        # The unrolled LSTM is a loop of its own, which a compiler would only write out row by row.
        whole = compiled and not network.recurrent
        self._forward: Callable[..., Outputs] = torch.compile(forward) if whole else forward
        self._outputs: Outputs | None = None

    def values(self, inputs: Inputs) -> NDArray[np.float32]:
        """Values [N] alone, in host memory."""
        values: NDArray[np.float32] = self.outputs(inputs).value.cpu().numpy()
        return values

    def outputs(self, inputs: Inputs) -> Outputs:
        """Outputs for a batch; keeps nothing."""
        return forward(self._network, self._leaves, inputs, self._image_dtype)

    def host_outputs(self, inputs: Inputs) -> Outputs:
        """Outputs in host memory, not to be differentiated."""
        policy, value = self.outputs(inputs)
        return Outputs(policy.cpu().numpy(), value.cpu().numpy())

    def forward(self, inputs: Inputs) -> Outputs:
        """Outputs for a batch; keeps what ``backward`` needs."""
        with torch.enable_grad():
            self._outputs = self._forward(self._network, self._leaves, inputs, self._image_dtype)
        return Outputs(self._outputs.policy.detach(), self._outputs.value.detach())

    def backward(self, d_policy: AnyArray, d_value: AnyArray, gradients: dict[str, Tensor]) -> None:
        """Overwrite ``gradients`` with those of sum(d_policy * policy) + sum(d_value * value)."""
        outputs, self._outputs = self._outputs, None
        assert outputs is not None
        pairs = [(outputs.policy, d_policy), (outputs.value, d_value)]
        roots, d_roots = zip(*(pair for pair in pairs if pair[0].requires_grad), strict=True)
        found = torch.autograd.grad(roots, tuple(self._leaves.values()), d_roots, materialize_grads=True)
        for name, gradient in zip(self._leaves, found, strict=True):
            gradients[name].copy_(gradient)


def differentiable(
    network: Network, parameters: dict[str, Tensor], compiled: bool, precision: Precision = "float32"
) -> Differentiable:
    """The quickest way to differentiate a network: towers on the CPU by hand (quicker than compiled, and at once)."""
    on_cpu = all(tensor.device.type == "cpu" for tensor in parameters.values())
    if on_cpu and not network.shared:
        return Towers(network, parameters)
    return Autograd(network, parameters, compiled, precision)
