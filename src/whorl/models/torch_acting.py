"""The acting forward of networks with images, in torch, in blocks of 8 rows like the numpy one."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import NamedTuple, ParamSpec, TypeVar

import numpy as np
import torch
from torch import Tensor

from whorl.models.cnn import ReadyCNN, ready_cnn
from whorl.models.encoding import to_blocks
from whorl.models.network import Network, block_size
from whorl.models.numpy_forward import BLOCK, Forwarded
from whorl.models.precision import Precision
from whorl.models.torch_forward import Inputs, forward_policy
from whorl.types import Array, Arrays

P = ParamSpec("P")
R = TypeVar("R")


def _one_thread(function: Callable[P, R]) -> Callable[P, R]:
    """Run on one thread, whatever a learner in the same process has: a few rows are not worth more, and threads that
    have just computed keep their cores busy waiting for more, which environments would then lack."""

    @wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        threads = torch.get_num_threads()
        if threads == 1:
            return function(*args, **kwargs)
        torch.set_num_threads(1)
        try:
            return function(*args, **kwargs)
        finally:
            torch.set_num_threads(threads)

    return wrapped


class _Taken(NamedTuple):
    """Weights as the forward takes them."""

    parameters: dict[str, Tensor]
    cnns: dict[str, ReadyCNN]


class TorchForward:
    """Padded buffers for one number of lanes, and the forward through them block by block."""

    def __init__(self, network: Network, lanes: int) -> None:
        self._network = network
        self._lanes = lanes
        self._renewed: _Taken | None = None
        self._padded = -(-lanes // BLOCK) * BLOCK
        self._features = np.zeros((self._padded, network.encoder.width), np.float32)
        self._images: Arrays = {}
        self._first = np.zeros((1, self._padded), np.bool_)
        self._state = tuple(np.zeros((self._padded, *field.shape), np.float32) for field in network.state)

    def renew(self, weights: Arrays, precision: Precision) -> None:
        """Make of these weights what every call needs of them, once for all calls until the next ``renew``."""
        with torch.inference_mode():
            self._renewed = self._take(weights, torch.bfloat16 if precision == "bfloat16" else torch.float32)

    def _take(self, weights: Arrays, dtype: torch.dtype) -> _Taken:
        network = self._network
        parameters = {parameter.name: _tensor(weights[parameter.name]) for parameter in network.policy_parameters}
        return _Taken(parameters, {leaf.name: ready_cnn(leaf, parameters, dtype) for leaf in network.encoder.images})

    @torch.inference_mode()
    @_one_thread
    def __call__(self, weights: Arrays, observation: Arrays, state: Arrays, first: Array) -> Forwarded:
        """Outputs for the current row of every lane."""
        lanes, network = self._lanes, self._network
        network.encoder.encode(weights, observation, self._features[:lanes])
        for leaf in network.encoder.images:
            blocks = to_blocks(observation[leaf.name], block_size(leaf))
            if leaf.name not in self._images:
                self._images[leaf.name] = np.zeros((self._padded, *blocks.shape[1:]), leaf.dtype)
            self._images[leaf.name][:lanes] = blocks
        self._first[0, :lanes] = first
        for field, buffer in zip(network.state, self._state, strict=True):
            buffer[:lanes] = state[field.name]
        taken = self._renewed or self._take(weights, torch.float32)
        results = [self._block(taken, slice(at, at + BLOCK)) for at in range(0, self._padded, BLOCK)]
        outputs = torch.cat([result[0] for result in results])[:lanes].numpy()
        after: Arrays = {}
        if network.recurrent:
            for i, field in enumerate(network.state):
                after[field.name] = torch.cat([result[1][i] for result in results])[:lanes].numpy()
        return Forwarded(outputs, after)

    def _block(self, taken: _Taken, rows: slice) -> tuple[Tensor, tuple[Tensor, ...]]:
        images = {name: torch.from_numpy(image[rows]) for name, image in self._images.items()}
        features = torch.from_numpy(self._features[rows])
        if not self._network.recurrent:
            outputs, _ = forward_policy(self._network, taken.parameters, Inputs(features, images), taken.cnns)
            return outputs, ()
        h, c = (torch.from_numpy(buffer[rows]) for buffer in self._state)
        first = torch.from_numpy(self._first[:, rows])
        inputs = Inputs(features, images, first, (h, c))
        outputs, state = forward_policy(self._network, taken.parameters, inputs, taken.cnns)
        assert state is not None
        return outputs, state


def _tensor(array: Array) -> Tensor:
    # Weights may lie in read-only shared memory, of which torch would warn.
    return torch.from_numpy(array if array.flags.writeable else array.copy())
