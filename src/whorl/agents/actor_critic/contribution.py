"""The flat buffer in which a shard's sums leave, and how a summed one is read."""

from __future__ import annotations

import torch
from torch import Tensor

from whorl.models.flat import FlatParameters
from whorl.types import Array, Layout


class Contribution:
    """One shard's sums. On the CPU gradients are written straight into the buffer."""

    def __init__(self, layout: Layout, parameters: FlatParameters) -> None:
        self.buffer = layout.allocate()
        views = layout.views(self.buffer)
        self.sums: Array = views["sums"]
        self.moments: Array = views.get("moments", views["sums"][:0])
        self._host = torch.from_numpy(views["gradient"])
        self._flat = self._host.to(parameters.flat.device)
        self.gradients: dict[str, Tensor] = parameters.named(self._flat)
        """Where each parameter's gradient goes."""

    def clear(self) -> None:
        """Zero everything, for steps without a gradient."""
        self.buffer[:] = 0

    def to_host(self) -> None:
        """Bring the buffer up to date with the device."""
        if self._flat is not self._host:
            self._host.copy_(self._flat)


class Totals:
    """Views of the summed contribution, kept while the same buffer comes again."""

    def __init__(self, layout: Layout, device: torch.device) -> None:
        self._layout = layout
        self._device = device
        self._buffer: Array | None = None
        self._views: tuple[Tensor, Array, Array]

    def read(self, total: Array) -> tuple[Tensor, Array, Array]:
        """(gradient on the device, sums, moments)."""
        if total is not self._buffer or self._device.type != "cpu" or not total.flags.writeable:
            views = self._layout.views(total)
            gradient = views["gradient"] if total.flags.writeable else views["gradient"].copy()
            self._views = (
                torch.from_numpy(gradient).to(self._device),
                views["sums"],
                views.get("moments", views["sums"][:0]),
            )
            self._buffer = total
        return self._views
