"""Pictures of the plate: what it is, what it should be, and what is between them."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from whorl.envs.library.heat.plate import HEATERS
from whorl.types import Array


class Picture:
    """Draws without a display."""

    def __init__(self) -> None:
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
        except ImportError as missing:
            need = "pictures need matplotlib: pip install 'whorl[plot]'"
            raise gymnasium.error.DependencyNotInstalled(need) from missing
        self._figure = Figure(figsize=(8.0, 3.2), dpi=80, layout="constrained")
        self._canvas: Any = FigureCanvasAgg(self._figure)
        self._axes = self._figure.subplots(1, 3)
        self._images: list[Any] = []

    def draw(self, field: Array, target: Array, heaters: Array, step: int) -> Array:
        """[height, width, 3] bytes."""
        framed = np.pad(field, 2, constant_values=np.nan)
        cells = len(field)
        half, along = cells // 2, slice(2, 2 + cells)
        north, south, west, east = (
            np.repeat(heaters[2 * edge : 2 * edge + 2], (half, cells - half)) for edge in range(HEATERS // 2)
        )
        framed[0, along], framed[-1, along], framed[along, 0], framed[along, -1] = north, south, west, east
        shown = (framed, target, field - target)
        if not self._images:
            titles = ("plate and heaters", "target", "difference")
            for axes, title, values in zip(self._axes, titles, shown, strict=True):
                self._images.append(axes.imshow(values, cmap="RdBu_r", vmin=-1, vmax=1))
                axes.set(title=title, xticks=[], yticks=[])
            self._figure.colorbar(self._images[-1], ax=list(self._axes), shrink=0.8)
        for image, values in zip(self._images, shown, strict=True):
            image.set_data(values)
        error = float(np.sqrt(np.mean((field - target) ** 2)))
        self._figure.suptitle(f"step {step}: root of the mean squared distance {error:.3f}", fontsize="medium")
        self._canvas.draw()
        return np.array(self._canvas.buffer_rgba())[..., :3]
