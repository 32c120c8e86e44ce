"""Initial weights, in numpy: the same bits in every process, whatever the device."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from whorl.models.network import Parameterised
from whorl.ops.noise import generator
from whorl.types import Array


def initial_weights(network: Parameterised, seed: int) -> Array:
    """A buffer of ``network.everything``: orthogonal matrices, zero biases, an identity as normaliser."""
    layout = network.everything
    buffer = layout.allocate()
    views = layout.views(buffer)
    for name, view in views.items():
        if name.startswith("norm/") and name.endswith("/scale"):
            view[...] = 1
    for index, parameter in enumerate(network.parameters):
        if parameter.gain:
            views[parameter.name][...] = orthogonal(generator(seed, index), parameter.shape, parameter.gain)
    return buffer


def orthogonal(numbers: np.random.Generator, shape: tuple[int, ...], gain: float) -> NDArray[np.float32]:
    """A (semi-)orthogonal matrix times ``gain`` (Saxe et al. 2014); a kernel counts as [out, everything else]."""
    rows, columns = shape[0], math.prod(shape[1:])
    tall, wide = max(rows, columns), min(rows, columns)
    q, r = np.linalg.qr(numbers.standard_normal((tall, wide)))
    q *= np.sign(np.diagonal(r))
    return (gain * (q if rows >= columns else q.T)).reshape(shape).astype(np.float32)
