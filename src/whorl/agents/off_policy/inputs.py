"""Drawn observations as a network takes them."""

from __future__ import annotations

import numpy as np
import torch

from whorl.models.encoding import Encoder, to_blocks
from whorl.models.network import block_size
from whorl.models.torch_forward import Inputs
from whorl.types import Arrays


def to_inputs(encoder: Encoder, observation: Arrays, device: torch.device) -> Inputs:
    """Features and images of N rows, on the device."""
    rows = len(next(iter(observation.values())))
    features = np.empty((rows, encoder.width), np.float32)
    encoder.encode({}, observation, features)
    blocks = {leaf.name: to_blocks(observation[leaf.name], block_size(leaf)) for leaf in encoder.images}
    images = {name: torch.from_numpy(image).to(device) for name, image in blocks.items()}
    return Inputs(torch.from_numpy(features).to(device), images)


def part_of(inputs: Inputs, rows: slice) -> Inputs:
    """Some rows of the inputs of a network without a core, as views."""
    return Inputs(inputs.features[rows], {name: image[rows] for name, image in inputs.images.items()})
