"""Running a network to act: numpy for small ones, torch (imported only then) for images."""

from __future__ import annotations

from typing import Protocol

from whorl.models.network import Network
from whorl.models.numpy_forward import Forwarded, NumpyForward
from whorl.types import Array, Arrays


class ActingForward(Protocol):
    """The policy's outputs for one row of a fixed number of lanes."""

    def __call__(self, weights: Arrays, observation: Arrays, state: Arrays, first: Array) -> Forwarded: ...


def acting_forward(network: Network, lanes: int) -> ActingForward:
    """The forward that the network's description asks for."""
    if network.acting == "numpy":
        return NumpyForward(network, lanes)
    from whorl.models.torch_acting import TorchForward

    return TorchForward(network, lanes)
