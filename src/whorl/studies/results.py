"""What cells left behind: numbers by dotted name, learning curves, and how long everything took."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from whorl.runs.metrics import read_metrics
from whorl.runs.status import counted
from whorl.studies.contract import Cell, Scale
from whorl.types import Array

MOST_POINTS = 200
CURVES = ("env_steps", "wall_s", "return_mean")
MORE_CURVES = ("converged_mean",)
"""Kept where the environment has them (the Booster)."""


@dataclass(frozen=True)
class CellResult:
    """One cell that was run."""

    cell: Cell
    values: dict[str, Any]
    """What its commands left: ``result`` (the run's ``result.json``), ``metrics`` (its
    last line), ``found`` (of a probe), ``storage_bytes``, ``storage`` (bytes by kind of role)."""
    curve: dict[str, list[float]]
    """``CURVES`` of a run, and those of ``MORE_CURVES`` that it has, thinned out; ``wall_s`` is ``since_start``."""
    seconds: list[float]
    """Of each command, start and end of its processes included."""
    origin: str = ""
    """The commit and the machine it was run with: a study may go on elsewhere."""

    def number(self, name: str) -> float | None:
        """By dotted name (``result.staleness.mean``; ``seconds`` in all); None where there is none."""
        if name == "seconds":
            return sum(self.seconds)
        value: Any = self.values
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        usable = isinstance(value, int | float) and math.isfinite(value)
        return float(value) if usable else None

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "cell": self.cell.plain(),
            "origin": self.origin,
            "seconds": self.seconds,
            "values": self.values,
            "curve": self.curve,
        }


@dataclass(frozen=True)
class Results:
    """Those of a study, or some of them."""

    scale: Scale
    engine: str
    cells: Sequence[CellResult] = field(default_factory=tuple)

    def where(self, **labels: Any) -> Results:
        """Those with these labels."""
        kept = [one for one in self.cells if all(one.cell.labels.get(name) == value for name, value in labels.items())]
        return Results(self.scale, self.engine, kept)

    def by(self, *names: str) -> dict[Any, Results]:
        """Apart by the values of some labels (or ``seed``), in the order of the cells; of one label by its plain
        value."""
        groups: dict[Any, list[CellResult]] = {}
        for one in self.cells:
            labels = {**one.cell.labels, "seed": one.cell.seed}
            if all(name in labels for name in names):
                key = tuple(labels[name] for name in names)
                groups.setdefault(key[0] if len(names) == 1 else key, []).append(one)
        return {key: Results(self.scale, self.engine, group) for key, group in groups.items()}

    def numbers(self, name: str) -> list[float]:
        """Of every cell that has it."""
        return [value for one in self.cells if (value := one.number(name)) is not None]

    def per_seed(self, value: Callable[[CellResult], float | None]) -> list[float]:
        """One number for each seed: the mean over its cells that have it. Cells of one seed are not seeds."""
        found = [[number for one in group if (number := value(one)) is not None] for group in self.by("seed").values()]
        return [sum(numbers) / len(numbers) for numbers in found if numbers]

    def seeds_with_same_weights(self, of: int) -> tuple[int, int]:
        """On how many seeds so many cells all came to the same weights, bit for bit, and how many seeds have them."""
        found = [group.same_weights(of) for group in self.by("seed").values()]
        return sum(same is True for same in found), sum(same is not None for same in found)

    def same_weights(self, of: int = 2) -> bool | None:
        """Whether all cells came to the same weights, bit for bit; None where fewer than these came to any."""
        hashes = [one.values.get("result", {}).get("weights_sha256") for one in self.cells]
        return None if len(hashes) < of or None in hashes else len(set(hashes)) == 1

    def share_with_same_weights(self, *names: str) -> list[float]:
        """For each seed: of its groups of cells that are alike in these labels, the share that came to the same weights
        within; of seeds in which every group can be compared."""
        shares = []
        for seed in self.by("seed").values():
            found = [group.same_weights() for group in seed.by(*names).values()]
            if None not in found:
                shares.append(sum(same is True for same in found) / len(found))
        return shares

    def curves(self, x: str = "env_steps", y: str = "return_mean") -> list[tuple[Array, Array]]:
        """Mean returns, or another mean, over ``env_steps`` or ``wall_s``, one for each cell that has any."""
        known = [one.curve for one in self.cells if one.curve.get(y)]
        return [(np.array(curve[x], float), np.array(curve[y], float)) for curve in known]

    @property
    def cores(self) -> int | None:
        """Of the machine they were run on; None where it was not the same for all."""
        found = {one.origin.rpartition(", ")[2] for one in self.cells}
        number, _, unit = next(iter(found), "").partition(" ")
        return int(number) if len(found) == 1 and unit == "CPUs" else None

    @property
    def cores_shown(self) -> str:
        """``2 cores``."""
        return "the cores there were" if self.cores is None else counted(self.cores, "core")

    def __bool__(self) -> bool:
        return bool(self.cells)

    def __iter__(self) -> Iterator[CellResult]:
        return iter(self.cells)


def pairs(first: Results, second: Results, name: str) -> list[tuple[float, float]]:
    """A number of both, seed by seed: of seeds that both have."""
    here, there = ({one.cell.seed: one.number(name) for one in side} for side in (first, second))
    return [(x, y) for seed, x in here.items() if x is not None and (y := there.get(seed)) is not None]


@dataclass(frozen=True)
class Taken:
    """What one command of a cell took."""

    seconds: float
    """Start and end of its process included."""
    lines: int
    """Of metrics, there once it had ended."""


def taken(folder: Path, seconds: float) -> Taken:
    """By a command that has just ended in a cell's folder."""
    metrics = folder / "run" / "metrics.jsonl"
    return Taken(seconds, metrics.read_bytes().count(b"\n") if metrics.is_file() else 0)


def read_cell(cell: Cell, folder: Path, commands: Sequence[Taken], origin: str = "") -> CellResult:
    """From what its commands wrote into its folder."""
    values: dict[str, Any] = {"storage_bytes": size_of(folder), "storage": storage_by_role(folder / "run")}
    curve: dict[str, list[float]] = {}
    for name, file in (("found", folder / "found.json"), ("result", folder / "run" / "result.json")):
        if file.is_file():
            values[name] = json.loads(file.read_bytes())
    metrics = folder / "run" / "metrics.jsonl"
    if metrics.is_file():
        curve = thinned_curve(metrics, commands)
        values["metrics"] = last_line(metrics)
    return CellResult(cell, values, curve, [command.seconds for command in commands], origin)


def thinned_curve(metrics: Path, commands: Sequence[Taken]) -> dict[str, list[float]]:
    """At most ``MOST_POINTS`` lines of those that have a mean return."""
    columns = read_metrics(metrics)
    if any(name not in columns for name in CURVES):
        return {}
    columns["wall_s"] = since_start(columns["wall_s"], commands)
    known = np.flatnonzero(np.isfinite(columns["return_mean"]))
    if not len(known):
        return {}
    chosen = known[np.unique(np.linspace(0, len(known) - 1, min(MOST_POINTS, len(known))).round().astype(int))]
    more = [name for name in MORE_CURVES if name in columns and np.isfinite(columns[name][chosen]).all()]
    return {name: [float(value) for value in columns[name][chosen]] for name in (*CURVES, *more)}


def since_start(wall_s: Array, commands: Sequence[Taken]) -> Array:
    """Seconds from the start of the first command's process. ``wall_s`` begins anew with each command that resumes the
    run, and leaves out what its process took to start: the last line of each stands where its command ended."""
    moved, begin, end_s = wall_s.astype(np.float64), 0, 0.0
    for command in commands:
        end_s += command.seconds
        if command.lines > begin:
            moved[begin : command.lines] += end_s - moved[command.lines - 1]
            begin = command.lines
    return moved


def last_line(metrics: Path) -> dict[str, Any]:
    """What was known at the end of a run."""
    lines = metrics.read_bytes().splitlines()
    last: dict[str, Any] = json.loads(lines[-1]) if lines else {}
    return last


def size_of(folder: Path) -> int:
    """Bytes of all files below it; those with two names count once."""
    found = {(stat.st_dev, stat.st_ino): stat.st_size for file in folder.rglob("*") if (stat := file.lstat())}
    return sum(found.values())


def storage_by_role(run: Path) -> dict[str, int]:
    """Bytes of a run directory by whose files they are: logs are each role's own, checkpoints the learner's, but for
    what replays keep in them; the rest is the run's."""
    found: dict[str, int] = {}
    for file in run.rglob("*"):
        if file.is_file():
            folder, kind = file.relative_to(run).parts[0], file.stem.partition("-")[0]
            if folder == "checkpoints":
                kind = "learner" if kind in ("learner", "ledger", "state", "manifest") else "replay"
            elif folder != "logs":
                kind = "run"
            found[kind] = found.get(kind, 0) + file.stat().st_size
    return found


def from_plain(plain: dict[str, Any]) -> CellResult:
    """As ``CellResult.plain`` gave it."""
    about = plain["cell"]
    commands = tuple(tuple(command) for command in about["commands"])
    cell = Cell(about["labels"], about["seed"], commands, about["emulated"])
    return CellResult(cell, plain["values"], plain["curve"], plain["seconds"], plain.get("origin", ""))
