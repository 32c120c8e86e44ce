"""Figures: data with axes and a caption, from which both the picture and the CSV are made."""

from __future__ import annotations

import base64
import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import fill
from typing import Any, ClassVar

import numpy as np

from whorl.runs.plot import figure_class
from whorl.runs.status import counted
from whorl.studies.stats import band, estimate
from whorl.types import Array

COLOURS = ("#2266cc", "#d9541e", "#2a9d5c", "#8e44ad", "#c9a227", "#17a2b8", "#c2185b", "#5d6d7e", "#111111", "#996633")
_PUBLISHED = "#cc0066"
_POINTS = 200
DPI, POINTS_PER_INCH = 140, 72.0
MOST_MARKS = 6
"""On an axis: as many places as were measured, if these are few."""
BAR_NAMES_PT, LEGEND_PT = 9.0, 9.0
LETTER = 0.53
"""How wide one is, on average, as a share of its size."""
CLOSE_BARS_PT = 26.0
"""Where a bar has less room, slanted names would lie on each other: they stand upright."""
FEW_BARS = 4
"""Their names fit below them, in several lines."""
LEGEND_ROWS = 3
"""So many fit below a picture of the usual height; more make it higher, and not its axes smaller."""
WIDE, NARROW = (7.6, 4.6), (4.0, 4.4)
"""Inches: for laptops, and for phones, on which the letters of a wide one are too small to read."""

Row = Sequence[Any]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """What all have. ``draw`` puts it on axes, ``rows`` are the CSV under ``header``."""

    name: str
    """Of the CSV file."""
    title: str
    caption: str
    """States what is to be seen."""
    x: str
    y: str
    """Axes, with their units."""
    emulated: str = ""
    """What is not real, said on the plot itself."""
    header: ClassVar[Sequence[str]] = ()
    seed_form: ClassVar[str] = "a dot for each"
    """How seeds are drawn."""

    def rows(self) -> Iterator[Row]:
        """Everything that is drawn."""
        raise NotImplementedError

    def draw(self, axes: Any) -> None:
        """On axes of Matplotlib."""
        raise NotImplementedError

    def counts(self) -> list[int]:
        """How many seeds there are of everything that is drawn."""
        raise NotImplementedError

    @property
    def seeds(self) -> str:
        """``5 seeds``, or ``3 to 5 seeds`` where groups differ."""
        known = [count for count in self.counts() if count] or [0]
        few, many = min(known), max(known)
        return counted(many, "seed") if few == many else f"{few} to {many} seeds"

    def csv(self) -> str:
        """The numbers."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.header)
        writer.writerows(self.rows())
        return text.getvalue()

    def png(self, size: tuple[float, float] = WIDE) -> bytes:
        """The picture, so many inches wide and high. It says by itself how many seeds there are and what is emulated:
        pictures get copied."""
        figure = figure_class()(figsize=size, dpi=DPI, layout="constrained")
        axes = figure.subplots()
        axes.set_axisbelow(True)
        axes.grid(True, color="#e2e2e2", linewidth=0.7)
        self.draw(axes)
        width = int(size[0] * 9)
        figure.suptitle(fill(self.title, width), fontsize=12, fontweight="bold", x=0.01, ha="left")
        says = self.seeds + (f"; emulated: {self.emulated}" if self.emulated else "")
        colour = "#aa0000" if self.emulated else "#555555"
        axes.set_title(fill(says, int(width * 1.35)), fontsize=9, style="italic", color=colour, loc="left")
        axes.set_xlabel(self.x)
        axes.set_ylabel(self.y)
        axes.spines[["top", "right"]].set_visible(False)
        labels = axes.get_legend_handles_labels()[1]
        if labels:
            # Below the axes: inside, it would lie on what it explains.
            entry_pt = LEGEND_PT * (4.8 + LETTER * max(map(len, labels)))  # its line, the spaces, its name
            columns = max(1, min(len(labels), int(POINTS_PER_INCH * size[0] / entry_pt)))
            more = max(0, -(-len(labels) // columns) - LEGEND_ROWS)
            figure.set_figheight(figure.get_figheight() + more * 1.5 * LEGEND_PT / POINTS_PER_INCH)
            figure.legend(frameon=False, fontsize=LEGEND_PT, loc="outside lower center", ncols=columns)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png")
        return _with_palette(buffer)

    def embedded(self, size: tuple[float, float] = WIDE) -> str:
        """The picture as an address that holds it."""
        return "data:image/png;base64," + base64.b64encode(self.png(size)).decode()


@dataclass(frozen=True, kw_only=True)
class Curves(Figure):
    """Learning curves: every seed thin; the interquartile mean and its interval where all seeds have been."""

    groups: Mapping[str, Sequence[tuple[Array, Array]]]
    header: ClassVar[Sequence[str]] = ("group", "seed number", "x", "y")
    seed_form: ClassVar[str] = "a thin line for each"

    def rows(self) -> Iterator[Row]:
        for name, lines in self.groups.items():
            for number, (xs, ys) in enumerate(lines, 1):
                yield from ((name, number, f"{x:.6g}", f"{y:.6g}") for x, y in zip(xs, ys, strict=True))

    def counts(self) -> list[int]:
        return [len(lines) for lines in self.groups.values()]

    def draw(self, axes: Any) -> None:
        from matplotlib.ticker import EngFormatter

        for (name, lines), colour in zip(self.groups.items(), _endless(COLOURS), strict=False):
            if not lines:
                continue
            for xs, ys in lines:
                assert (np.diff(xs) >= 0).all(), f"{self.name}, {name}: a curve that goes back"
                axes.plot(xs, ys, color=colour, linewidth=0.6, alpha=0.4)
            first, last = max(xs[0] for xs, _ in lines), min(xs[-1] for xs, _ in lines)
            if last <= first:
                axes.plot([], [], color=colour, label=name)
                continue
            grid = np.linspace(first, last, _POINTS)
            middle, low, high = band(np.stack([np.interp(grid, xs, ys) for xs, ys in lines]))
            if len(lines) > 1:
                axes.fill_between(grid, low, high, color=colour, alpha=0.15, linewidth=0)
            axes.plot(grid, middle, color=colour, linewidth=2.0, label=name)
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))


@dataclass(frozen=True, kw_only=True)
class Bars(Figure):
    """A bar for each group: interquartile mean, interval, every seed as a dot, and what was published as a line."""

    groups: Mapping[str, Sequence[float]]
    published: Mapping[str, float] = field(default_factory=dict)
    log_y: bool = False
    """For groups that differ by an order of magnitude or more."""
    header: ClassVar[Sequence[str]] = ("group", "seed number", "value", "published")

    def rows(self) -> Iterator[Row]:
        for name, values in self.groups.items():
            for number, value in enumerate(values, 1):
                yield name, number, f"{value:.6g}", self.published.get(name, "")

    def counts(self) -> list[int]:
        return [len(values) for values in self.groups.values()]

    def draw(self, axes: Any) -> None:
        known = {name: values for name, values in self.groups.items() if values}
        for place, (name, values) in enumerate(known.items()):
            found, colour = estimate(values), COLOURS[place % len(COLOURS)]
            axes.bar(place, found.value, width=0.62, color=colour, alpha=0.55)
            if len(values) > 1:
                axes.vlines(place, found.low, found.high, color="#222222", linewidth=2.0)
            axes.plot([place + 0.18] * len(values), values, "o", color=colour, markersize=3.5, markeredgewidth=0)
            if name in self.published:
                label = "published" if place == min(i for i, key in enumerate(known) if key in self.published) else None
                axes.hlines(
                    self.published[name], place - 0.38, place + 0.38, color=_PUBLISHED, linewidth=2.0, linestyle="--",
                    label=label,
                )  # fmt: skip
        name_bars(axes, list(known))
        if self.log_y:
            _logarithmic(axes, min((value for values in known.values() for value in values if value > 0), default=1.0))
        axes.grid(False, axis="x")


@dataclass(frozen=True, kw_only=True)
class Lines(Figure):
    """Something measured at some places on an axis, for each group: interquartile mean, interval, every seed."""

    groups: Mapping[str, Mapping[float, Sequence[float]]]
    published: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    """Lines or points that others give."""
    theory: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    """What follows from a formula or a fit."""
    log_x: bool = False
    log_y: bool = False
    from_zero: bool = False
    """Of shares and ratios, of which a part of the scale would show more than there is."""
    header: ClassVar[Sequence[str]] = ("group", "x", "seed number", "value")

    def rows(self) -> Iterator[Row]:
        for name, places in self.groups.items():
            for x, values in places.items():
                yield from ((name, x, number, f"{value:.6g}") for number, value in enumerate(values, 1))
        for kind, others in (("published", self.published), ("theory", self.theory)):
            for name, points in others.items():
                yield from ((f"{kind}: {name}", x, "", f"{y:.6g}") for x, y in points)

    def counts(self) -> list[int]:
        return [len(values) for places in self.groups.values() for values in places.values()]

    def draw(self, axes: Any) -> None:
        for (name, places), colour in zip(self.groups.items(), _endless(COLOURS), strict=False):
            found = [(x, estimate(values), values) for x, values in sorted(places.items()) if values]
            if not found:
                continue
            axes.plot([x for x, _, _ in found], [one.value for _, one, _ in found], "-", color=colour, label=name)
            for x, one, values in found:
                axes.plot([x] * len(values), values, "o", color=colour, markersize=3.5)
                if len(values) > 1:
                    axes.vlines(x, one.low, one.high, color=colour, linewidth=3.0, alpha=0.4)
        for (name, points), style in zip(self.theory.items(), _endless((":", "--", "-.")), strict=False):
            axes.plot(*zip(*points, strict=True), style, color="#555555", linewidth=1.5, label=name)
        for name, points in self.published.items():
            axes.plot(*zip(*points, strict=True), "D", color=_PUBLISHED, markersize=6, label=f"published: {name}")
        marks = sorted({x for group in self.groups.values() for x in group})
        if self.log_x:
            axes.set_xscale("log", base=2)
        if self.log_y:
            axes.set_yscale("log", base=2)
            axes.yaxis.set_major_formatter("{x:g}")
        if self.from_zero:
            axes.set_ylim(bottom=0)
        if self.log_x or len(marks) <= MOST_MARKS:
            axes.set_xticks(marks, [f"{x:g}" for x in marks])
            axes.minorticks_off()


def _logarithmic(axes: Any, least: float) -> None:
    """A scale of bars, which begin at the power of ten below the least of them."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_yscale("log")
    axes.set_ylim(bottom=10.0 ** math.floor(math.log10(least)))
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.yaxis.set_minor_formatter(NullFormatter())


def name_bars(axes: Any, names: Sequence[str]) -> None:
    """Below their bars: in several lines, slanted or upright, as there is room."""
    room_pt = POINTS_PER_INCH * (axes.figure.get_figwidth() - 0.8) / max(1, len(names))
    places = range(len(names))
    if len(names) <= FEW_BARS:
        letters = max(6, int(room_pt / (LETTER * BAR_NAMES_PT)))
        lines = [fill(name, letters, break_long_words=False) for name in names]
        axes.set_xticks(places, lines, fontsize=BAR_NAMES_PT)
    elif room_pt >= CLOSE_BARS_PT:
        axes.set_xticks(places, names, fontsize=BAR_NAMES_PT, rotation=30, ha="right", rotation_mode="anchor")
    else:
        axes.set_xticks(places, names, fontsize=BAR_NAMES_PT, rotation=90)


def _endless(styles: Sequence[str]) -> Iterator[str]:
    while True:
        yield from styles


def _with_palette(png: io.BytesIO) -> bytes:
    """A third of the size: few of its colours differ by more than an eye can tell."""
    from PIL import Image

    small = io.BytesIO()
    with Image.open(png) as picture:
        picture.convert("RGB").quantize(255, dither=Image.Dither.NONE).save(small, "png", optimize=True)
    return small.getvalue()
