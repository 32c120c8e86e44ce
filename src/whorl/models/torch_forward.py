"""The forward in torch, functional on named parameters: any network, to learn by autograd or to act on images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from whorl.models.cnn import ReadyCNN, forward_cnn, run_cnn
from whorl.models.lstm import unroll_lstm
from whorl.models.network import ActingNetwork, Network
from whorl.ops.namespace import AnyArray

Parameters = Mapping[str, Tensor]


class Inputs(NamedTuple):
    """A batch as the network takes it. For a recurrent network N = rows * lanes, row by row."""

    features: Tensor
    """[N, encoder width] float32."""
    images: dict[str, Tensor]
    """Image leaf to blocks of pixels, as ``encoding.to_blocks`` makes them of images as stored."""
    first: Tensor | None = None
    """[rows, lanes] bool, for a recurrent network."""
    state: tuple[Tensor, Tensor] | None = None
    """(h, c) before the first row, [lanes, size], for a recurrent network."""


class Outputs(NamedTuple):
    """What the heads say: tensors, or numpy arrays where gradients are written out."""

    policy: AnyArray
    """[width, N]; a Gaussian's log standard deviations follow its means: [2 width, N]."""
    value: AnyArray
    """[N], or [0] of a network without a value."""


def forward(
    network: Network, parameters: Parameters, inputs: Inputs, image_dtype: torch.dtype = torch.float32
) -> Outputs:
    """Policy outputs and values of a batch. What images go through is computed in ``image_dtype``."""
    trunk = forward_trunk(network, parameters, inputs, image_dtype)[0] if network.shared else None
    policy = forward_tower(network, parameters, "policy", inputs.features) if trunk is None else trunk
    outputs = forward_head(parameters, "policy", policy)
    if network.gaussian:
        outputs = torch.cat([outputs, parameters["policy/log_std"][:, None].expand_as(outputs)])
    if not network.value_parameters:
        return Outputs(outputs, outputs.new_zeros(0))
    value = forward_tower(network, parameters, "value", inputs.features) if trunk is None else trunk
    return Outputs(outputs, forward_head(parameters, "value", value)[0])


def forward_policy(
    network: Network, parameters: Parameters, inputs: Inputs, ready: Mapping[str, ReadyCNN] | None = None
) -> tuple[Tensor, tuple[Tensor, Tensor] | None]:
    """The policy's outputs [N, width] alone, and the recurrent state after the last row."""
    if network.shared:
        hidden, state = forward_trunk(network, parameters, inputs, ready=ready)
    else:
        hidden, state = forward_tower(network, parameters, "policy", inputs.features), None
    return forward_head(parameters, "policy", hidden).t(), state


def forward_trunk(
    network: Network,
    parameters: Parameters,
    inputs: Inputs,
    image_dtype: torch.dtype = torch.float32,
    ready: Mapping[str, ReadyCNN] | None = None,
) -> tuple[Tensor, tuple[Tensor, Tensor] | None]:
    """What policy and value share: images, encoder, core."""
    trunk = forward_features(network, parameters, inputs, image_dtype, ready)
    if not network.recurrent:
        return trunk, None
    assert inputs.first is not None
    assert inputs.state is not None
    rows, lanes = inputs.first.shape
    gates = torch.addmm(parameters["lstm/bias"], trunk, parameters["lstm/input"])
    h, state = unroll_lstm(gates.view(rows, lanes, -1), parameters["lstm/recurrent"], inputs.first, *inputs.state)
    return h.reshape(rows * lanes, -1), state


def forward_features(
    network: Network,
    parameters: Parameters,
    inputs: Inputs,
    image_dtype: torch.dtype = torch.float32,
    ready: Mapping[str, ReadyCNN] | None = None,
) -> Tensor:
    """What goes into the core or the heads of a shared trunk: [N, trunk width]. ``ready`` is what was made before of
    the parameters that images go through."""
    parts = [
        run_cnn(ready[leaf.name], inputs.images[leaf.name])
        if ready is not None
        else forward_cnn(leaf, parameters, inputs.images[leaf.name], image_dtype)
        for leaf in network.encoder.images
    ]
    if network.encoder.width:
        encoded = inputs.features
        for i in range(network.encoder_layers):
            encoded = _activation(network, _linear(parameters, f"encoder/{i}", encoded))
        parts.append(encoded)
    return parts[0] if len(parts) == 1 else torch.cat(parts, 1)


def forward_tower(network: ActingNetwork, parameters: Parameters, name: str, x: Tensor) -> Tensor:
    """The hidden layers of one tower."""
    for i in range(len(network.config.hidden)):
        x = _activation(network, _linear(parameters, f"{name}/{i}", x))
    return x


def forward_head(parameters: Parameters, name: str, x: Tensor) -> Tensor:
    """The last layer, as columns [width, N]."""
    return torch.addmm(parameters[f"{name}/out/bias"][:, None], parameters[f"{name}/out/weight"], x.t())


def _linear(parameters: Parameters, name: str, x: Tensor) -> Tensor:
    return torch.addmm(parameters[f"{name}/bias"], x, parameters[f"{name}/weight"])


def _activation(network: ActingNetwork, x: Tensor) -> Tensor:
    return x.tanh() if network.config.activation == "tanh" else x.relu()
