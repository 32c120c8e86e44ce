"""Parameters as one flat tensor, with a view for each name: clipping, optimiser and transfer act on one array."""

from __future__ import annotations

import torch
from torch import Tensor

from whorl.models.initial import initial_weights
from whorl.models.network import Parameterised
from whorl.types import Array, Field, Layout


class FlatParameters:
    """A network's buffer in host memory, and its parameters on a device.

    On the CPU ``flat`` shares the buffer's memory, so that ``weights`` is always current and never copied.
    """

    def __init__(self, network: Parameterised, seed: int, device: torch.device) -> None:
        self.buffer = initial_weights(network, seed)
        self.views = network.everything.views(self.buffer)
        self.layout = Layout(tuple(parameter.field for parameter in network.parameters))
        self.size = self.layout.size_bytes // 4
        self._weights_bytes = network.weights.size_bytes
        self._host = self.buffer[network.everything.size_bytes - self.layout.size_bytes :].view("float32")
        self.flat = torch.from_numpy(self._host).to(device)
        self.tensors = self.named(self.flat)

    def named(self, flat: Tensor) -> dict[str, Tensor]:
        """Each parameter's part of a flat tensor (of values or of gradients), as views."""
        return {
            field.name: _part(flat, offset // 4, field)
            for field, offset in zip(self.layout.fields, self.layout.offsets, strict=True)
        }

    def weights(self) -> Array:
        """The actors' part of the buffer, current."""
        self.to_host()
        return self.buffer[: self._weights_bytes]

    def to_host(self) -> None:
        """Bring the buffer up to date with the device."""
        if self.flat.device.type != "cpu":
            self._host[...] = self.flat.cpu().numpy()

    def from_host(self) -> None:
        """Bring the device up to date with the buffer."""
        if self.flat.device.type != "cpu":
            self.flat.copy_(torch.from_numpy(self._host))


def _part(flat: Tensor, start: int, field: Field) -> Tensor:
    return flat[start : start + field.size_bytes // 4].view(field.shape)
