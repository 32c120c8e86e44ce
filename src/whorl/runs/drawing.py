"""Small pictures made of characters: a sparkline, a bar, a curve. Each has a plain ASCII form for old terminals."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from whorl.runs.status import number, rate

_BLOCKS = "▁▂▃▄▅▆▇█"
_ASCII = "_.-=+*%#"
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # braille dots by row and column of a cell
_SPAN_FLOOR = 1e-300


def sparkline(values: Sequence[float], width: int = 24, ascii_only: bool = False) -> str:
    """The values in one line of at most ``width`` characters, from their minimum to their maximum."""
    finite = [value for value in values if math.isfinite(value)]
    levels = _ASCII if ascii_only else _BLOCKS
    if not finite or width < 1:
        return ""
    heights = _scaled(_thinned(finite, width), finite)
    return "".join(levels[min(len(levels) - 1, int(height * len(levels)))] for height in heights)


def bar(share: float, width: int = 10, ascii_only: bool = False) -> str:
    """A share between 0 and 1 as a filled bar of exactly ``width`` characters."""
    filled = round(width * min(1.0, max(0.0, share if math.isfinite(share) else 0.0)))
    full, empty = ("#", ".") if ascii_only else ("█", "░")
    return full * filled + empty * (width - filled)


def curve(
    points: Sequence[tuple[int, float]], width: int = 60, height: int = 6, ascii_only: bool = False, label: str = ""
) -> list[str]:
    """Return over ``env_steps`` as a few lines of text with both axes; empty when there are fewer than two points."""
    finite = [(x, y) for x, y in points if math.isfinite(y)]
    if len(finite) < 2 or finite[-1][0] <= finite[0][0]:
        return []
    columns, rows = (width, height) if ascii_only else (width * 2, height * 4)
    heights = _resampled(finite, columns)
    ys = [y for _, y in finite]
    levels = [min(rows - 1, int(level * rows)) for level in _scaled(heights, ys)]
    body = _ascii_rows(levels, rows) if ascii_only else _braille_rows(levels, width, height)
    top, bottom = number(max(ys)), number(min(ys))
    margin = max(len(top), len(bottom))
    wall = "|" if ascii_only else "┤"
    labels = [top, *[""] * (height - 2), bottom] if height > 1 else [top]
    lines = [f"{text:>{margin}} {wall}{row}" for text, row in zip(labels, body, strict=True)]
    first, last = rate(finite[0][0]), f"{rate(finite[-1][0])} env steps"
    room = max(1, width - len(first) - len(last))
    foot = f"{first}{label if len(label) + 2 <= room else '':^{room}}{last}"
    return [*lines, " " * (margin + 2) + foot]


def _thinned(values: Sequence[float], width: int) -> list[float]:
    """At most ``width`` values: means of equal runs."""
    if len(values) <= width:
        return list(values)
    edges = [round(index * len(values) / width) for index in range(width + 1)]
    return [_mean(values[start:end]) for start, end in itertools.pairwise(edges)]


def _resampled(points: Sequence[tuple[int, float]], columns: int) -> list[float]:
    """The height in each of ``columns`` equal steps of x; empty columns are bridged by a straight line."""
    first, last = points[0][0], points[-1][0]
    gathered: list[list[float]] = [[] for _ in range(columns)]
    for x, y in points:
        gathered[min(columns - 1, max(0, (x - first) * columns // (last - first)))].append(y)
    known = [(column, _mean(ys)) for column, ys in enumerate(gathered) if ys]
    heights = [known[0][1]] * columns
    for (left, low), (right, high) in itertools.pairwise(known):
        for column in range(left, right + 1):
            weight = (column - left) / (right - left)
            heights[column] = low * (1 - weight) + high * weight
    return heights


def _braille_rows(levels: Sequence[int], width: int, height: int) -> list[str]:
    cells = [[0] * width for _ in range(height)]
    previous = levels[0]
    for column, level in enumerate(levels):
        # Fill the way from the level before, so that steep parts stay one line.
        for dot in range(min(level, previous), max(level, previous) + 1):
            row = height * 4 - 1 - dot
            cells[row // 4][column // 2] |= _DOTS[row % 4][column % 2]
        previous = level
    return ["".join(chr(0x2800 + cell) for cell in row).replace("\u2800", " ") for row in cells]


def _ascii_rows(levels: Sequence[int], rows: int) -> list[str]:
    return ["".join("*" if level == row else " " for level in levels) for row in range(rows - 1, -1, -1)]


def _scaled(values: Sequence[float], extent: Sequence[float]) -> list[float]:
    """To 0..1 over the extent; all in the middle when it is flat. Halved first, so that huge spans do not overflow."""
    low, high = min(extent) / 2, max(extent) / 2
    span = high - low
    if span < _SPAN_FLOOR:
        return [0.5] * len(values)
    return [min(1.0, max(0.0, (value / 2 - low) / span)) for value in values]


def _mean(values: Sequence[float]) -> float:
    return sum(value / len(values) for value in values)
