"""Pictures of an episode: error and set point so far, beside what the published regulator does on the same signals."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from whorl.envs.library.booster import plant
from whorl.envs.library.booster.copies import Copies
from whorl.envs.library.booster.signals import B_VIMIN, IB
from whorl.types import Array

_SHOWN_TICKS = 200


class Picture:
    """Draws without a display. The regulator's episode is computed once."""

    def __init__(self, copies: Copies) -> None:
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
        except ImportError as missing:
            need = "pictures need matplotlib: pip install 'whorl[plot]'"
            raise gymnasium.error.DependencyNotInstalled(need) from missing
        settings = copies.settings
        self._signals = copies.signals[settings.settling_ticks :, 0]
        self._errors, self._set_points = copies.regulated()
        figure = Figure(figsize=(7.2, 4.8), dpi=80, layout="constrained")
        self._canvas: Any = FigureCanvasAgg(figure)
        self._axes = figure.subplots(3, 1, sharex=True, height_ratios=(3, 3, 1))
        error, set_point, injector = self._axes
        self._lines = [
            error.plot([], [], color="0.6", label="regulator")[0],
            error.plot([], [], color="tab:blue", label="agent")[0],
            set_point.plot([], [], color="0.6", label="regulator")[0],
            set_point.plot([], [], color="tab:blue", label="agent")[0],
            set_point.plot([], [], color="tab:orange", lw=1, label="B_VIMIN of the operators")[0],
            injector.plot([], [], color="tab:green")[0],
        ]
        error.axhspan(-settings.tolerance, settings.tolerance, color="tab:green", alpha=0.15)
        error.set(ylabel="B:IMINER (A)", ylim=plant.IMINER_RANGE)
        set_point.set(ylabel="B:VIMIN (A)")
        set_point.ticklabel_format(useOffset=False)
        injector.set(ylabel="I:IB (A)", ylim=(0, 7500), xlabel="tick (1/15 s)")
        set_point.legend(loc="upper left", fontsize="small", ncols=3)

    def draw(self, trace: list[tuple[float, float]]) -> Array:
        """[height, width, 3] bytes; ``trace`` holds the agent's IMINER and VIMIN of each tick so far."""
        ticks = len(trace)
        first = max(0, ticks - _SHOWN_TICKS)
        clock, agent = np.arange(first, ticks), np.array(trace[first:]).reshape(-1, 2)
        rows = slice(first, ticks)
        operators, injector = self._signals[rows, B_VIMIN], self._signals[rows, IB]
        values: list[Any] = [self._errors[rows], agent[:, 0], self._set_points[rows], agent[:, 1], operators, injector]
        for line, value in zip(self._lines, values, strict=True):
            line.set_data(clock, value)
        error, set_point, _ = self._axes
        error.set_xlim(first, max(first + 1, min(first + _SHOWN_TICKS, len(self._signals))))
        if ticks:
            shown = np.concatenate([agent[:, 1], self._set_points[rows], operators])
            set_point.set_ylim(shown.min() - 0.01, shown.max() + 0.03)
        mine, regulators = (np.abs(value).mean() if ticks else 0.0 for value in (agent[:, 0], self._errors[rows]))
        error.set_title(f"mean |B:IMINER|: agent {mine:.3f} A, regulator {regulators:.3f} A", fontsize="medium")
        self._canvas.draw()
        return np.array(self._canvas.buffer_rgba())[..., :3]
