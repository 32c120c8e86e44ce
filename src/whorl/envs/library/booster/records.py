"""Records of the machine, as the BOOSTR data set has them: a CSV file with a column for each variable, a row per tick.

Other columns are left alone. Rows with a missing value are left out, and so are repeated ones. The series is cut where
more than a second is missing; what is made of it never looks across a cut.
"""

from __future__ import annotations

import csv
import datetime
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from whorl.envs.library.booster.controllers import Regulator, draw_lanes, regulate
from whorl.envs.library.booster.signals import B_VIMIN, B_VIMIN_RANGE, IB, LINFRQ, MDAT40, TICKS_PER_S
from whorl.errors import BadInputError
from whorl.types import Array

VARIABLES = ("B:VIMIN", "B:IMINER", "B:LINFRQ", "I:IB", "I:MDAT40")
OPERATORS = "B_VIMIN"
TIME = "time"
STANDING_OFFSET_A = 0.065
"""By how much VIMIN lies above B_VIMIN on average, for records that do not hold the latter."""
DITHER_A = 0.005

_LONGEST_GAP_S = 1.0
_LONGEST_LINE = 1 << 16


@dataclass(frozen=True)
class Records:
    """What was recorded, tick by tick."""

    values: Array
    """[ticks, 6]: the five variables and B_VIMIN, float64."""
    stretches: Array
    """[stretches, 2]: first and last + 1 tick of each part without a gap, int64."""

    def starts(self, ticks: int) -> Array:
        """Every tick from which so many follow without a gap."""
        return np.concatenate(
            [np.zeros(0, np.int64), *(np.arange(first, stop - ticks + 1) for first, stop in self.stretches.tolist())]
        )

    def newest(self, ticks: int) -> Records:
        """The last so many ticks."""
        dropped = max(0, len(self.values) - ticks)
        stretches = (self.stretches - dropped).clip(0)
        return Records(self.values[dropped:], stretches[stretches[:, 1] > 0])


def read_records(path: Path, most_ticks: int) -> Records:
    """The first ``most_ticks`` complete rows of a file; ``BadInputError`` says what is wrong with another file."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.reader(_short_lines(file, path))
            header = [name.strip() for name in next(rows, [])]
            return _gather(_Columns(path, header), rows, most_ticks)
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadInputError(f"{path}: is no CSV file: {error}") from error


def _short_lines(file: Iterator[str], path: Path) -> Iterator[str]:
    for number, line in enumerate(file, 1):
        if len(line) > _LONGEST_LINE:
            raise BadInputError(f"{path}: is no CSV file: line {number} has over {_LONGEST_LINE} characters")
        yield line


class _Columns:
    """Where the variables are in a row."""

    def __init__(self, path: Path, header: Sequence[str]) -> None:
        missing = [name for name in VARIABLES if name not in header]
        if missing:
            raise BadInputError(f"{path}: has no column {', '.join(missing)}; needed are {', '.join(VARIABLES)}")
        self.path = path
        names = (*VARIABLES, OPERATORS) if OPERATORS in header else VARIABLES
        self._places = [header.index(name) for name in names]
        self._time = header.index(TIME) if TIME in header else None

    def read(self, row: Sequence[str], line: int) -> list[float]:
        """The variables of a row; NaN where one is missing."""
        return [self._number(row, place, line) for place in self._places]

    def time_s(self, row: Sequence[str], line: int) -> float | None:
        """When it was, if the file tells."""
        if self._time is None or self._time >= len(row):
            return None
        text = row[self._time].strip()
        try:
            return float(text)
        except ValueError:
            pass
        try:
            return datetime.datetime.fromisoformat(text).timestamp()
        except (ValueError, OverflowError, OSError):
            raise BadInputError(
                f"{self.path}, line {line}: {TIME} must be seconds or like 2020-03-10 12:00:00.067, not {text[:40]!r}; "
                f"without that column, rows are taken as they come"
            ) from None

    def _number(self, row: Sequence[str], place: int, line: int) -> float:
        text = row[place].strip() if place < len(row) else ""
        try:
            value = float(text or "nan")
        except ValueError:
            raise BadInputError(f"{self.path}, line {line}: expected a number, got {text[:40]!r}") from None
        return value if math.isfinite(value) else math.nan


def _gather(columns: _Columns, rows: Iterator[Sequence[str]], most_ticks: int) -> Records:
    kept: list[list[float]] = []
    cuts = [0]
    before_s: float | None = None
    last: Sequence[str] = ()
    left_out = 0
    for line, row in enumerate(rows, 2):
        values = columns.read(row, line)
        if any(map(math.isnan, values)):
            left_out += 1
            continue
        if row == last:
            continue
        last, now_s = row, columns.time_s(row, line)
        missing_s = now_s - before_s if now_s is not None and before_s is not None else left_out / TICKS_PER_S
        if kept and not 0 <= missing_s <= _LONGEST_GAP_S:
            cuts.append(len(kept))
        kept.append(values)
        before_s, left_out = now_s, 0
        if len(kept) == most_ticks:
            break
    if not kept:
        raise BadInputError(f"{columns.path}: has no complete row")
    values_ = np.array(kept)
    if values_.shape[1] == len(VARIABLES):
        level = (values_[:, 0].mean() - STANDING_OFFSET_A).clip(*B_VIMIN_RANGE)
        values_ = np.column_stack([values_, np.full(len(values_), level)])
    return Records(values_, np.column_stack([cuts, [*cuts[1:], len(values_)]]).astype(np.int64))


class _Dithered(Regulator):
    """The published regulator with some noise on its set point. Without it VIMIN would be a function of IMINER, and
    nobody could tell from the records what another set point would have done."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._noise = np.random.default_rng((seed, 1))

    def decide(self, row: Array, error: Array) -> Array:
        return super().decide(row, error) + self._noise.normal(0, DITHER_A, len(error))


def write_synthetic(path: Path, ticks: int, seed: int) -> None:
    """A file of the same form, as the stand-in plant under the published regulator, dithered, would have written it."""
    drawn = draw_lanes(1, ticks, seed)
    errors, set_points = regulate(_Dithered(seed), drawn)
    named = (set_points[0], errors[0], *(drawn[0, :, channel] for channel in (LINFRQ, IB, MDAT40, B_VIMIN)))
    begin = datetime.datetime(2020, 3, 10, tzinfo=datetime.UTC)
    try:
        with path.open("w", newline="", encoding="utf-8") as file:
            out = csv.writer(file)
            out.writerow([TIME, *VARIABLES, OPERATORS])
            for tick, values in enumerate(np.column_stack(named).tolist()):
                moment = begin + datetime.timedelta(seconds=tick / TICKS_PER_S)
                out.writerow([moment.isoformat(sep=" "), *(f"{value:.6f}" for value in values)])
    except OSError as error:
        raise BadInputError(f"{path}: cannot be written: {error.strerror or error}") from error
