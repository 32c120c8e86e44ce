"""Running a network to act: numpy for small ones, torch (imported only then) for images."""

from __future__ import annotations

from typing import Protocol

from whorl.models.network import Network
from whorl.models.numpy_forward import Forwarded, NumpyForward
from whorl.models.precision import Precision
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


class ActingForwards:
    """The policy's outputs for one row of any number of lanes."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._forwards: dict[int, ActingForward] = {}
        self._renewed: tuple[Arrays, Precision] | None = None

    def __call__(self, weights: Arrays, observation: Arrays, state: Arrays, first: Array) -> Forwarded:
        forward = self._forwards.get(len(first))
        if forward is None:
            forward = self._forwards[len(first)] = acting_forward(self._network, len(first))
            self._renew(forward)
        return forward(weights, observation, state, first)

    def renew(self, weights: Arrays, precision: Precision) -> None:
        """Act with these weights from now on, and run images through their convolutions in ``precision``; what that
        takes is made of them once, and not in every call."""
        self._renewed = (weights, precision)
        for forward in self._forwards.values():
            self._renew(forward)

    def _renew(self, forward: ActingForward) -> None:
        if self._renewed is not None and self._network.acting == "torch":
            from whorl.models.torch_acting import TorchForward

            assert isinstance(forward, TorchForward)
            forward.renew(*self._renewed)
