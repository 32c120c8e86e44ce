"""One tower for a whole batch, in numpy: for numbers beside acting. A row's outputs do not depend on the rows beside
it, to the last bit, so that a batch can be computed in parts: as in acting, blocks of one size are multiplied."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whorl.models.config import NetworkConfig
from whorl.models.encoding import Encoder
from whorl.models.numpy_forward import BLOCK
from whorl.types import Array, Arrays


def encoded(encoder: Encoder, weights: Arrays, observation: Arrays) -> NDArray[np.float32]:
    """The features [N, width] of observations [N, ...]."""
    features = np.zeros((len(next(iter(observation.values()))), encoder.width), np.float32)
    encoder.encode(weights, observation, features)
    return features


def tower_outputs(config: NetworkConfig, weights: Arrays, name: str, features: Array) -> NDArray[np.float32]:
    """The outputs [N, out] of a tower for features [N, in]."""
    x = _in_blocks(features)
    for layer in range(len(config.hidden)):
        x = x @ weights[f"{name}/{layer}/weight"] + weights[f"{name}/{layer}/bias"]
        x = np.tanh(x) if config.activation == "tanh" else np.maximum(x, 0)
    return _head(weights, name, x)[: len(features)]


def head_outputs(weights: Arrays, name: str, x: Array) -> NDArray[np.float32]:
    """A tower's last layer alone."""
    return _head(weights, name, _in_blocks(x))[: len(x)]


def _head(weights: Arrays, name: str, blocks: Array) -> NDArray[np.float32]:
    outputs: NDArray[np.float32] = blocks @ weights[f"{name}/out/weight"].T + weights[f"{name}/out/bias"]
    return outputs.reshape(-1, outputs.shape[-1])


def _in_blocks(x: Array) -> Array:
    """[N, width] to [blocks, BLOCK, width], the last one filled up with zeros."""
    missing = -len(x) % BLOCK
    whole = np.concatenate([x, np.zeros((missing, x.shape[1]), x.dtype)]) if missing else x
    return whole.reshape(-1, BLOCK, x.shape[1])
