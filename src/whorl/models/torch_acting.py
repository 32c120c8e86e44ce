"""The acting forward of networks with images, in torch, in blocks of 8 rows like the numpy one."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from whorl.models.encoding import to_blocks
from whorl.models.network import Network, block_size
from whorl.models.numpy_forward import BLOCK, Forwarded
from whorl.models.torch_forward import Inputs, forward_policy
from whorl.types import Array, Arrays


class TorchForward:
    """Padded buffers for one number of lanes, and the forward through them block by block."""

    def __init__(self, network: Network, lanes: int) -> None:
        self._network = network
        self._lanes = lanes
        self._padded = -(-lanes // BLOCK) * BLOCK
        self._features = np.zeros((self._padded, network.encoder.width), np.float32)
        self._images: Arrays = {}
        self._first = np.zeros((1, self._padded), np.bool_)
        self._state = tuple(np.zeros((self._padded, *field.shape), np.float32) for field in network.state)

    @torch.inference_mode()
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
        parameters = {parameter.name: _tensor(weights[parameter.name]) for parameter in network.policy_parameters}
        results = [self._block(parameters, slice(at, at + BLOCK)) for at in range(0, self._padded, BLOCK)]
        outputs = torch.cat([result[0] for result in results])[:lanes].numpy()
        after: Arrays = {}
        if network.recurrent:
            for i, field in enumerate(network.state):
                after[field.name] = torch.cat([result[1][i] for result in results])[:lanes].numpy()
        return Forwarded(outputs, after)

    def _block(self, parameters: dict[str, Tensor], rows: slice) -> tuple[Tensor, tuple[Tensor, ...]]:
        images = {name: torch.from_numpy(image[rows]) for name, image in self._images.items()}
        features = torch.from_numpy(self._features[rows])
        if not self._network.recurrent:
            outputs, _ = forward_policy(self._network, parameters, Inputs(features, images))
            return outputs, ()
        h, c = (torch.from_numpy(buffer[rows]) for buffer in self._state)
        first = torch.from_numpy(self._first[:, rows])
        outputs, state = forward_policy(self._network, parameters, Inputs(features, images, first, (h, c)))
        assert state is not None
        return outputs, state


def _tensor(array: Array) -> Tensor:
    # Weights may lie in read-only shared memory, of which torch would warn.
    return torch.from_numpy(array if array.flags.writeable else array.copy())
