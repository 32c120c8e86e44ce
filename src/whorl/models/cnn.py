"""The convolutional part of a network: one image leaf to features.

A convolution with kernel k and stride s, where s divides k, is one with kernel k / s and stride 1 over *blocks* of
s x s pixels: the same products, but of s * s times as many channels, for which processors have far quicker kernels.
Images therefore come in the blocks of the first convolution (``encoding.to_blocks``), channels last.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from whorl.models.encoding import image_scale
from whorl.models.network import convolutions
from whorl.types import ObservationLeaf


class _Layer(NamedTuple):
    """One convolution, over blocks where it can be."""

    weight: Tensor
    bias: Tensor | None
    stride: int
    kernel: int
    """Of the convolution as it is described, in pixels."""
    block: int
    """Pixels of a block that its input must first be cut into; 1: as it comes."""


class ReadyCNN(NamedTuple):
    """A CNN's parameters as its operations take them: worth keeping while they do not change."""

    layers: tuple[_Layer, ...]
    weight: Tensor
    bias: Tensor


def forward_cnn(leaf: ObservationLeaf, parameters: Mapping[str, Tensor], blocks: Tensor, dtype: torch.dtype) -> Tensor:
    """Features [N, image_features] in float32; convolutions and the layer behind them are computed in ``dtype``."""
    return run_cnn(ready_cnn(leaf, parameters, dtype), blocks)


def ready_cnn(leaf: ObservationLeaf, parameters: Mapping[str, Tensor], dtype: torch.dtype) -> ReadyCNN:
    """Scale the first layer, lay kernels out over blocks, and take everything to ``dtype``."""
    name, layers = f"image/{leaf.name}", []
    for i, (kernel, stride) in enumerate(convolutions(leaf)):
        weight, bias = parameters[f"{name}/{i}/weight"], parameters.get(f"{name}/{i}/bias")
        block = 1
        if i == 0:
            weight, bias = _scaled(leaf, weight, bias)
        if kernel % stride == 0:
            block = stride if i > 0 else 1  # images come in blocks
            weight, stride = _over_blocks(weight, stride, pixels_first=i > 0), 1
        layers.append(_Layer(weight.to(dtype), None if bias is None else bias.to(dtype), stride, kernel, block))
    weight, bias = parameters[f"{name}/out/weight"], parameters[f"{name}/out/bias"]
    return ReadyCNN(tuple(layers), weight.to(dtype), bias.to(dtype))


def run_cnn(cnn: ReadyCNN, blocks: Tensor) -> Tensor:
    """Features [N, image_features] in float32."""
    x = blocks.to(cnn.weight.dtype).permute(0, 3, 1, 2)
    for layer in cnn.layers:
        x = functional.conv2d(_blocks(x, layer.kernel, layer.block), layer.weight, layer.bias, layer.stride).relu_()
    # Pixel by pixel, as it lies.
    flat = x.permute(0, 2, 3, 1).flatten(1)
    return torch.addmm(cnn.bias, flat, cnn.weight).relu_().to(torch.float32)


def _scaled(leaf: ObservationLeaf, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """The first layer for an image that is not brought to [0, 1] before: w (x - offset) factor + b."""
    offset, factor = image_scale(leaf)
    weight = weight * factor
    if offset:
        shift = -offset * weight.sum((1, 2, 3))
        bias = shift if bias is None else bias + shift
    return weight, bias


def _blocks(x: Tensor, kernel: int, size: int) -> Tensor:
    """[N, channels, height, width], channels last, to [N, size * size * channels, rows, columns], the same way."""
    if size == 1:
        return x
    rows, columns = ((side - kernel) // size + kernel // size for side in x.shape[2:])
    pixels = x.permute(0, 2, 3, 1)[:, : rows * size, : columns * size]
    apart = pixels.reshape(-1, rows, size, columns, size, x.shape[1]).transpose(2, 3)
    return apart.reshape(-1, rows, columns, size * size * x.shape[1]).permute(0, 3, 1, 2)


def _over_blocks(weight: Tensor, size: int, pixels_first: bool) -> Tensor:
    """A kernel [out, in, k, k] as one over blocks, [out, in * size * size, k / size, k / size]. The channels of a block
    are in the order of ``_blocks`` if ``pixels_first``, else in that of ``to_blocks``."""
    out, channels, kernel, _ = weight.shape
    side = kernel // size
    apart = weight.view(out, channels, side, size, side, size)
    order = (0, 3, 5, 1, 2, 4) if pixels_first else (0, 1, 3, 5, 2, 4)
    return apart.permute(order).reshape(out, channels * size * size, side, side)
