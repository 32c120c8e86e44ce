"""Search spaces: what stands in a file in the place of a value.

learning_rate = { low = 1e-4, high = 1e-2, log = true }
epochs = { low = 2, high = 10, step = 2 }
hidden = { choices = [[64, 64], [256]] }
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from whorl.config.suggest import did_you_mean, nearest
from whorl.config.toml import write_toml
from whorl.errors import ConfigError

if TYPE_CHECKING:
    import optuna

MARKS = ("choices", "low", "high")
_KEYS = (*MARKS, "log", "step", "start")
MOST_CHOICES = 10_000


def is_space(value: Any) -> bool:
    """A table that is meant as a space."""
    return isinstance(value, Mapping) and any(mark in value for mark in MARKS)


@dataclass(frozen=True)
class Choices:
    """One of these."""

    values: tuple[Any, ...]
    start: Any = None

    @property
    def labels(self) -> list[Any]:
        """What a journal can hold for each: itself, or its text where it is a list or a table."""
        return [label_of(value) for value in self.values]

    def value_of(self, label: Any) -> Any:
        """The value behind a label."""
        return self.values[_position(self.labels, label)]

    def suggest(self, name: str, trial: optuna.trial.Trial) -> Any:
        """The label that the study's method draws."""
        return trial.suggest_categorical(name, self.labels)

    def all_labels(self) -> list[Any]:
        return self.labels

    def ends(self) -> list[Any]:
        """Labels that are enough to see whether a file can be run."""
        return self.labels

    def draw(self, generator: np.random.Generator) -> Any:
        return self.labels[int(generator.integers(len(self.values)))]

    def perturb(self, label: Any, factor: float, generator: np.random.Generator) -> Any:
        """A neighbour in the order in which they are written."""
        del factor
        here = _position(self.labels, label)
        return self.labels[max(0, min(len(self.values) - 1, here + (1 if generator.random() < 0.5 else -1)))]


@dataclass(frozen=True)
class Range:
    """A number between two, both included."""

    low: float
    high: float
    log: bool = False
    step: float | None = None
    whole: bool = False
    start: float | None = None

    def value_of(self, label: Any) -> Any:
        """The number itself."""
        return int(label) if self.whole else float(label)

    def suggest(self, name: str, trial: optuna.trial.Trial) -> Any:
        """The number that the study's method draws."""
        if self.whole:
            return trial.suggest_int(name, int(self.low), int(self.high), step=int(self.step or 1), log=self.log)
        return trial.suggest_float(name, self.low, self.high, step=self.step, log=self.log)

    def all_labels(self) -> list[Any]:
        """Every number of a range with steps."""
        step = self.step or 1
        count = math.floor((self.high - self.low) / step * (1 + 1e-9) + 1e-9) + 1
        return [self._tidy(self.low + index * step) for index in range(count)]

    def ends(self) -> list[Any]:
        return [self._tidy(self.low), self._tidy(self.high)]

    def draw(self, generator: np.random.Generator) -> Any:
        if self.step or (self.whole and not self.log):
            return self.all_labels()[int(generator.integers(len(self.all_labels())))]
        if self.log:
            return self._tidy(math.exp(generator.uniform(math.log(self.low), math.log(self.high))))
        return self._tidy(generator.uniform(self.low, self.high))

    def perturb(self, label: Any, factor: float, generator: np.random.Generator) -> Any:
        """Multiplied or divided, within the range; on the next step where there are steps."""
        up = generator.random() < 0.5
        if self.step or self.whole:
            step = self.step or 1
            moved = max(step, abs(label) * (factor - 1)) * (1 if up else -1) + label
            moved = self.low + round((moved - self.low) / step) * step
        else:
            moved = label * factor if up else label / factor
        return self._tidy(min(self.high, max(self.low, moved)))

    def _tidy(self, number: float) -> Any:
        return round(number) if self.whole else float(number)


Space = Choices | Range


def read_space(table: Mapping[str, Any], where: str, kind: str) -> Space:
    """A checked space. ``kind`` is that of the setting: ``integer``, ``number``, another, or empty where any may be."""
    for key in table:
        if key not in _KEYS:
            end = did_you_mean(nearest(key, _KEYS)) or f"; a space has {', '.join(_KEYS)}"
            raise ConfigError(f"{where}: a space has no {key!r}{end}")
    if "choices" in table:
        return _choices(table, where)
    return _range(table, where, kind)


def _choices(table: Mapping[str, Any], where: str) -> Choices:
    values = table["choices"]
    surplus = [key for key in table if key not in ("choices", "start")]
    if surplus:
        raise ConfigError(f"{where}: either choices or low and high; leave out {surplus[0]}")
    if not isinstance(values, list) or not values:
        raise ConfigError(f"{where}: choices must be a list of at least one value, as in {{ choices = [1, 2] }}")
    labels = [repr(label_of(value)) for value in values]
    if len(set(labels)) < len(labels):
        raise ConfigError(f"{where}: a choice is named twice")
    if "start" in table and repr(label_of(table["start"])) not in labels:
        raise ConfigError(f"{where}: start = {table['start']!r} is none of the choices")
    return Choices(tuple(values), label_of(table["start"]) if "start" in table else None)


def _range(table: Mapping[str, Any], where: str, kind: str) -> Range:
    for key in ("low", "high"):
        if key not in table:
            raise ConfigError(f"{where}: has no {key}; write {{ low = ..., high = ... }} or {{ choices = [...] }}")
    if kind not in ("integer", "number", ""):
        raise ConfigError(f"{where}: takes no numbers, so it has no low and high; write {{ choices = [...] }}")
    for key in ("low", "high", "step", "start"):
        number = table.get(key)
        if key in table and (isinstance(number, bool) or not isinstance(number, int | float)):
            raise ConfigError(f"{where}: {key} must be a number; got {number!r}")
        if isinstance(number, float) and not math.isfinite(number):
            raise ConfigError(f"{where}: {key} must be a finite number; got {number!r}")
    numbers = [table[key] for key in ("low", "high", "step") if key in table]
    whole = kind == "integer" or (not kind and all(isinstance(number, int) for number in numbers))
    if whole and (odd := next((number for number in numbers if number != int(number)), None)) is not None:
        raise ConfigError(f"{where}: takes integers; got {odd!r}")
    low, high, step, log = table["low"], table["high"], table.get("step"), table.get("log", False)
    if not isinstance(log, bool):
        raise ConfigError(f"{where}: log must be true or false; got {log!r}")
    if low > high:
        raise ConfigError(f"{where}: low = {low} is more than high = {high}; exchange them")
    if low == high:
        raise ConfigError(f"{where}: low and high are both {low}; write the value itself")
    if log and low <= 0:
        raise ConfigError(f"{where}: a logarithmic range begins above 0; got low = {low}")
    if step is not None and (step <= 0 or log):
        raise ConfigError(f"{where}: a step is more than 0 and not logarithmic; leave out {'log' if log else 'step'}")
    if step is not None and (high - low) / step > MOST_CHOICES:
        raise ConfigError(f"{where}: more than {MOST_CHOICES:,} steps; leave out step")
    if "start" in table and not low <= table["start"] <= high:
        raise ConfigError(f"{where}: start = {table['start']} is outside of {low} to {high}")
    return Range(float(low), float(high), log, step, whole, table.get("start"))


def label_of(value: Any) -> Any:
    """A plain value as it is; a list or a table as its TOML text."""
    if isinstance(value, bool | int | float | str):
        return value
    return write_toml({"x": value}).removeprefix("x = ").strip()


def _position(labels: list[Any], label: Any) -> int:
    """By type too: 1 is not true."""
    return next(i for i, known in enumerate(labels) if type(known) is type(label) and known == label)
