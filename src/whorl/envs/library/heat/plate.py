"""The plate: the heat equation on some of its rows, and what is drawn for an episode.

Temperatures are in units of what a heater can reach: its own is within -1 to 1. The plate has ``cells`` x ``cells``
cells of side 1, and loses heat to its surroundings, which are at 0:

    T' = T + 0.2 (T_north + T_south + T_west + T_east - 4 T) - 0.001 T + source

Each edge has two heaters, which hold the half of the edge that they lie along at their own temperature. A heater
follows its setting slowly. All arithmetic is by cell or by row, so that it does not matter who computes which rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whorl.types import Array

DIFFUSION, LOSS = 0.2, 0.001
SUBSTEPS = 10
"""Of the equation per env step."""
HEATER_RESPONSE = 0.3
"""How much of the way to its setting a heater goes in an env step."""
HEATERS = 8
"""Two along the north edge (west, east), the south edge (west, east), the west edge (north, south), the east edge."""
_NORTH, _SOUTH, _WEST, _EAST = (slice(2 * edge, 2 * edge + 2) for edge in range(4))
_MODES = 3
_TARGET_SETTING = 0.8
_START_TEMPERATURE = 0.4
_SOURCE = 0.0015


class Plate:
    """The rows ``first`` to ``last`` (exclusive) of a plate, with a row of neighbours on either side."""

    def __init__(self, cells: int, first: int, last: int) -> None:
        self.cells, self.rows = cells, slice(first, last)
        self._padded = np.zeros((last - first + 2, cells + 2))
        self._source: Array = np.zeros((last - first, cells))
        self._is_top, self._is_bottom = first == 0, last == cells
        self.target: Array = np.zeros((last - first, cells))

    @property
    def field(self) -> Array:
        """[rows, cells] temperatures; to be changed in place."""
        return self._padded[1:-1, 1:-1]

    @property
    def neighbours(self) -> tuple[Array, Array, Array, Array]:
        """The rows that come from the rank above, go to it, go to the one below, and come from that. Contiguous."""
        padded = self._padded
        return padded[0], padded[1], padded[-2], padded[-1]

    def begin(self, episode: Episode) -> None:
        """Cut this plate's rows out of what was drawn."""
        self.field[...] = episode.start[self.rows]
        self.target, self._source = episode.target[self.rows].copy(), episode.source[self.rows].copy()

    def heat(self, heaters: Array) -> None:
        """Bring the edges to the temperatures of the heaters."""
        padded, along = self._padded, np.repeat(np.arange(2), (self.cells // 2, self.cells - self.cells // 2))
        padded[1:-1, 0], padded[1:-1, -1] = heaters[_WEST][along[self.rows]], heaters[_EAST][along[self.rows]]
        if self._is_top:
            padded[0, 1:-1] = heaters[_NORTH][along]
        if self._is_bottom:
            padded[-1, 1:-1] = heaters[_SOUTH][along]

    def advance(self) -> None:
        """One substep; the neighbours' rows must be there."""
        padded, field = self._padded, self.field
        around = padded[:-2, 1:-1] + padded[2:, 1:-1]
        around += padded[1:-1, :-2]
        around += padded[1:-1, 2:]
        around -= 4.0 * field
        around *= DIFFUSION
        around -= LOSS * field
        around += self._source
        field += around

    def squared_errors(self) -> Array:
        """[rows]: the squared distance to the target, summed over each row."""
        difference = np.ascontiguousarray(self.field - self.target)
        return np.asarray((difference * difference).sum(axis=1))


@dataclass(frozen=True)
class Episode:
    """What is drawn for an episode, each [cells, cells]. Every rank draws all of it, from the same generator."""

    start: Array
    target: Array
    source: Array
    """A patch that is heated or cooled by something else, which nobody is told of."""

    @classmethod
    def draw(cls, generator: np.random.Generator, responses: Array) -> Episode:
        """``responses`` are those of ``steady_responses``: a target is where some setting of the heaters leads to."""
        cells = responses.shape[1]
        setting = generator.uniform(-_TARGET_SETTING, _TARGET_SETTING, HEATERS)
        modes = generator.uniform(-_START_TEMPERATURE, _START_TEMPERATURE, (_MODES, _MODES))
        middle = generator.uniform(0.25, 0.75, 2) * cells
        strength = generator.uniform(-_SOURCE, _SOURCE)
        places = np.arange(cells) + 0.5
        waves = np.sin(np.outer(np.arange(1, _MODES + 1), places) * (np.pi / cells))
        bumps = [np.exp(-(((places - centre) / (cells / 8)) ** 2)) for centre in middle]
        start, target = np.zeros((cells, cells)), np.zeros((cells, cells))
        for row in range(_MODES):
            for column in range(_MODES):
                start += modes[row, column] * np.outer(waves[row], waves[column])
        for heater in range(HEATERS):
            target += setting[heater] * responses[heater]
        return cls(start, target, strength * np.outer(*bumps))


def steady_responses(cells: int) -> Array:
    """[heaters, cells, cells]: where the plate comes to with one heater at 1 and no other. By sine transforms."""
    numbers = np.arange(1, cells + 1)
    sines = np.sqrt(2 / (cells + 1)) * np.sin(np.outer(numbers, numbers) * (np.pi / (cells + 1)))
    rates = 2 * DIFFUSION * (1 - np.cos(numbers * (np.pi / (cells + 1))))
    decay = rates[:, None] + rates[None, :] + LOSS
    responses = np.empty((HEATERS, cells, cells))
    for heater in range(HEATERS):
        plate = Plate(cells, 0, cells)
        plate.heat(np.eye(HEATERS)[heater])
        plate.advance()  # from a cold plate: what flows in
        responses[heater] = sines @ ((sines @ plate.field @ sines) / decay) @ sines
    return responses
