"""The acting forward of small networks, in numpy: the policy's part only.

Rows are padded to blocks of 8, and each block is multiplied on its own: every product has the same shape whatever the
number of lanes, so that a row's result has the same bits for every split of the lanes over actors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whorl.models.network import ActingNetwork
from whorl.types import Array, Arrays

BLOCK = 8
"""Rows of one product. Products of under 4 rows round differently from longer ones."""


class Forwarded(NamedTuple):
    """Outputs of the policy [lanes, width] and the recurrent state after this row."""

    outputs: Array
    state: Arrays


class NumpyForward:
    """Buffers for one number of lanes, and the forward through them."""

    def __init__(self, network: ActingNetwork, lanes: int) -> None:
        self._network = network
        self._lanes = lanes
        self._blocks = -(-lanes // BLOCK)
        self._features = self._buffer(network.encoder.width)
        self._rows = self._features.reshape(-1, network.encoder.width)[:lanes]
        layers = range(len(network.config.hidden))
        kind = "encoder" if network.recurrent else "policy"
        self._hidden = [
            (f"{kind}/{i}/weight", f"{kind}/{i}/bias", self._buffer(network.config.hidden[i])) for i in layers
        ]
        self._outputs = self._buffer(network.output_width)
        size = network.config.lstm_size
        self._h, self._c, self._gates, self._gates_h = (self._buffer(w) for w in (size, size, 4 * size, 4 * size))
        self._tanh = network.config.activation == "tanh"

    def __call__(self, weights: Arrays, observation: Arrays, state: Arrays, first: Array) -> Forwarded:
        """Outputs for the current row of every lane."""
        self._network.encoder.encode(weights, observation, self._rows)
        x = self._features
        for weight, bias, out in self._hidden:
            np.matmul(x, weights[weight], out=out)
            out += weights[bias]
            if self._tanh:
                np.tanh(out, out=out)
            else:
                np.maximum(out, 0, out=out)
            x = out
        after: Arrays = {}
        if self._network.recurrent:
            x, after = self._lstm(weights, x, state, first)
        np.matmul(x, weights["policy/out/weight"].T, out=self._outputs)
        self._outputs += weights["policy/out/bias"]
        return Forwarded(self._outputs.reshape(-1, self._outputs.shape[2])[: self._lanes], after)

    def _lstm(self, weights: Arrays, x: Array, state: Arrays, first: Array) -> tuple[Array, Arrays]:
        """An LSTM cell (Hochreiter and Schmidhuber 1997; Gers et al. 2000) with gates in the order i, f, g, o."""
        h, c, gates, lanes, size = self._h, self._c, self._gates, self._lanes, self._h.shape[2]
        going_on = ~first[:, None]
        np.multiply(state["h"], going_on, out=h.reshape(-1, size)[:lanes])
        np.multiply(state["c"], going_on, out=c.reshape(-1, size)[:lanes])
        np.matmul(x, weights["lstm/input"], out=gates)
        np.matmul(h, weights["lstm/recurrent"], out=self._gates_h)
        gates += self._gates_h
        gates += weights["lstm/bias"]
        i, f, g, o = (gates[..., part * size : (part + 1) * size] for part in range(4))
        c *= _sigmoid(f)
        c += _sigmoid(i) * np.tanh(g)
        np.multiply(_sigmoid(o), np.tanh(c), out=h)
        after = {"h": h.reshape(-1, size)[:lanes].copy(), "c": c.reshape(-1, size)[:lanes].copy()}
        return h, after

    def _buffer(self, width: int) -> NDArray[np.float32]:
        return np.zeros((self._blocks, BLOCK, width), np.float32)


def _sigmoid(x: Array) -> Array:
    # By tanh, which neither overflows nor warns.
    half = np.float32(0.5)
    y: Array = np.tanh(x * half)
    y *= half
    y += half
    return y
