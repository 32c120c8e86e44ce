"""The outputs of a network with images for all rows of a trajectory at once, in torch."""

from __future__ import annotations

import torch

from whorl.models.encoding import flat_rows, to_blocks
from whorl.models.network import Network, block_size
from whorl.models.numpy_tower import encoded
from whorl.models.torch_forward import Inputs, forward
from whorl.types import Array, Arrays, leaves_of


@torch.inference_mode()
def values_of_rows(network: Network, weights: Arrays, trajectory: Arrays) -> tuple[Array, Array]:
    """Policy outputs [N, width] and values [N] (empty without a value) of the N = rows * lanes observations."""
    observation = {name: flat_rows(leaf) for name, leaf in leaves_of(trajectory, "obs/").items()}
    images = {
        leaf.name: torch.from_numpy(to_blocks(observation[leaf.name], block_size(leaf)))
        for leaf in network.encoder.images
    }
    parameters = {parameter.name: torch.from_numpy(weights[parameter.name]) for parameter in network.parameters}
    inputs = Inputs(torch.from_numpy(encoded(network.encoder, weights, observation)), images)
    if network.recurrent:
        h, c = (torch.from_numpy(trajectory[f"state/{name}"].copy()) for name in ("h", "c"))
        inputs = inputs._replace(first=torch.from_numpy(trajectory["first"].copy()), state=(h, c))
    outputs = forward(network, parameters, inputs)
    return outputs.policy.t().numpy(), outputs.value.numpy()
