"""One tower for a whole batch, in numpy: for numbers beside acting, whose last bits do not matter."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whorl.models.config import NetworkConfig
from whorl.models.encoding import Encoder
from whorl.types import Array, Arrays


def encoded(encoder: Encoder, weights: Arrays, observation: Arrays) -> NDArray[np.float32]:
    """The features [N, width] of observations [N, ...]."""
    features = np.zeros((len(next(iter(observation.values()))), encoder.width), np.float32)
    encoder.encode(weights, observation, features)
    return features


def tower_outputs(config: NetworkConfig, weights: Arrays, name: str, features: Array) -> NDArray[np.float32]:
    """The outputs [N, out] of a tower for features [N, in]."""
    x = features
    for layer in range(len(config.hidden)):
        x = x @ weights[f"{name}/{layer}/weight"] + weights[f"{name}/{layer}/bias"]
        x = np.tanh(x) if config.activation == "tanh" else np.maximum(x, 0)
    return head_outputs(weights, name, x)


def head_outputs(weights: Arrays, name: str, x: Array) -> NDArray[np.float32]:
    """A tower's last layer alone."""
    outputs: NDArray[np.float32] = x @ weights[f"{name}/out/weight"].T + weights[f"{name}/out/bias"]
    return outputs
