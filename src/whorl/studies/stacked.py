"""Bars of parts: what each role takes of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from whorl.studies.figures import COLOURS, Figure, Row, name_bars
from whorl.studies.stats import estimate


@dataclass(frozen=True, kw_only=True)
class StackedBars(Figure):
    """For each group its parts on each other (interquartile means), and each seed's sum as a dot."""

    groups: Mapping[str, Mapping[str, Sequence[float]]]
    first: Sequence[str] = ()
    """Names of parts that come first, in this order: they have the same colours in every figure."""
    header: ClassVar[Sequence[str]] = ("group", "part", "seed number", "value")
    seed_form: ClassVar[str] = "a dot for the sum of each; parts are interquartile means"

    def rows(self) -> Iterator[Row]:
        for name, parts in self.groups.items():
            for part, values in parts.items():
                yield from ((name, part, number, f"{value:.6g}") for number, value in enumerate(values, 1))

    def counts(self) -> list[int]:
        return [len(values) for parts in self.groups.values() for values in parts.values()]

    def draw(self, axes: Any) -> None:
        names = list(dict.fromkeys([*self.first, *(part for parts in self.groups.values() for part in parts)]))
        colours = {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(names)}
        known = {name: parts for name, parts in self.groups.items() if any(parts.values())}
        for place, parts in enumerate(known.values()):
            below = 0.0
            for part in (name for name in names if parts.get(name)):
                height = estimate(parts[part]).value
                axes.bar(place, height, bottom=below, width=0.62, color=colours[part], alpha=0.75)
                below += height
            sums = [sum(one) for one in zip(*(values for values in parts.values() if values), strict=False)]
            axes.plot([place + 0.18] * len(sums), sums, "o", color="#222222", markersize=3.0, markeredgewidth=0)
        for name in (name for name in names if any(name in parts for parts in known.values())):
            axes.bar(0, 0, color=colours[name], alpha=0.75, label=name)
        name_bars(axes, list(known))
        axes.grid(False, axis="x")
