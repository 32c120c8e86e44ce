"""Metrics of a run: JSON lines always, TensorBoard on request, and the window of recent episodes.

{"update": 12, "env_steps": 3072, "wall_s": 1.93, "return_mean": 41.2, "policy_loss": -0.013, ...}
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from whorl.errors import BadInputError
from whorl.runs.files import open_for_lines, os_reason
from whorl.types import Array, Arrays

Record = Mapping[str, float | int | bool | None]
"""One line's values. ``update`` and ``env_steps`` are always there."""


class MetricsSink(Protocol):
    """Where records go."""

    last_error: str
    """Why what was written still waits; empty when it does not."""

    def write(self, record: Record) -> None: ...

    def rewind(self, update: int, env_steps: int) -> None:
        """The run goes on from here: forget what was written beyond."""
        ...

    def flush(self) -> None: ...

    def close(self) -> None: ...


class MetricsWriter:
    """Appends records to ``metrics.jsonl``, at most one write to the disk per second.

    A crash leaves at most a partial last line, which readers skip and the next writer cuts off. A full disk does not
    stop training: lines wait (up to ``max_waiting_bytes``, newer ones are then dropped and counted).
    """

    flush_every_s = 1.0
    max_waiting_bytes = 16 << 20

    def __init__(self, path: Path) -> None:
        self._path = path
        self._waiting = bytearray()
        self._flushed_at = time.monotonic()
        self.dropped = 0
        self.last_error = ""
        try:
            self._descriptor = open_for_lines(path)
        except OSError as error:
            raise BadInputError(f"{path}: cannot write metrics: {os_reason(error)}") from error

    def write(self, record: Record) -> None:
        """Add a line. Values that are not finite become null."""
        line = json.dumps({name: _plain(value) for name, value in record.items()}).encode() + b"\n"
        if len(self._waiting) + len(line) > self.max_waiting_bytes:
            self.dropped += 1
        else:
            self._waiting += line
        if time.monotonic() - self._flushed_at >= self.flush_every_s:
            self.flush()

    def flush(self) -> None:
        """Hand everything waiting to the operating system."""
        self._flushed_at = time.monotonic()
        try:
            while self._waiting:
                del self._waiting[: os.write(self._descriptor, self._waiting)]
            self.last_error = ""
        except OSError as error:
            self.last_error = f"{self._path}: metrics wait to be written: {os_reason(error)}"

    def rewind(self, update: int, env_steps: int) -> None:
        """Forget the lines of later updates, at a resume from the checkpoint of ``update``. In place, so that it works
        on a full disk too."""
        del env_steps
        self.flush()
        waiting = [line for line in bytes(self._waiting).splitlines(keepends=True) if _is_kept(line, update)]
        self._waiting = bytearray(b"".join(waiting))  # where a full disk kept lines back
        try:
            os.ftruncate(self._descriptor, _end_of(self._path, update))
        except OSError as error:
            raise BadInputError(f"{self._path}: cannot cut metrics: {os_reason(error)}") from error

    def close(self) -> None:
        """Flush and let go. May be called again."""
        if self._descriptor >= 0:
            self.flush()
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = -1


def read_metrics(path: Path) -> dict[str, Array]:
    """Every metric as an array with one value per line; NaN where a line has none. Whole numbers stay integers."""
    records = list(_records(path))
    names = dict.fromkeys(name for record in records for name in record)
    return {name: _column([record.get(name) for record in records]) for name in names}


class MetricMeans:
    """Means of what several updates measured, each metric over the updates that have it."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._counts: dict[str, int] = {}

    def add(self, metrics: Mapping[str, float]) -> None:
        """What one update measured."""
        sums, counts = self._sums, self._counts
        for name, value in metrics.items():
            sums[name] = sums.get(name, 0.0) + value
            counts[name] = counts.get(name, 0) + 1

    def take(self) -> dict[str, float]:
        """The means since the last call."""
        means = {name: total / self._counts[name] for name, total in self._sums.items()}
        self._sums, self._counts = {}, {}
        return means


class EpisodeWindow:
    """Returns, lengths and metrics (by name) of the last episodes, and the number of all so far."""

    def __init__(self, metrics: Sequence[str] = (), size: int = 100) -> None:
        self._returns: deque[float] = deque(maxlen=size)
        self._lengths: deque[int] = deque(maxlen=size)
        self._metrics: dict[str, deque[float]] = {name: deque(maxlen=size) for name in metrics}
        self.episodes = 0

    def add(self, episode_return: float, length: int, metrics: Sequence[float] = ()) -> None:
        """An episode has ended."""
        for values, value in zip(self._metrics.values(), metrics, strict=True):
            values.append(float(value))
        self._returns.append(float(episode_return))
        self._lengths.append(int(length))
        self.episodes += 1

    @property
    def return_mean(self) -> float:
        """NaN before the first episode."""
        return math.fsum(self._returns) / len(self._returns) if self._returns else math.nan

    @property
    def length_mean(self) -> float:
        """NaN before the first episode."""
        return sum(self._lengths) / len(self._lengths) if self._lengths else math.nan

    @property
    def metric_means(self) -> dict[str, float | None]:
        """``NAME_mean`` for each metric, over the episodes that have it; None where none has."""
        return {f"{name}_mean": _mean_of_known(values) for name, values in self._metrics.items()}

    @property
    def full(self) -> bool:
        """True when the mean is over as many episodes as the window holds."""
        return len(self._returns) == self._returns.maxlen

    def save(self) -> Arrays:
        """For a checkpoint."""
        return {
            "returns": np.array(self._returns, np.float64),
            "lengths": np.array(self._lengths, np.int64),
            "episodes": np.array(self.episodes, np.int64),
            **{f"metric-{name}": np.array(values, np.float64) for name, values in self._metrics.items()},
        }

    def load(self, arrays: Mapping[str, Array]) -> None:
        """From a checkpoint."""
        self._returns.clear()
        self._lengths.clear()
        self._returns.extend(float(value) for value in arrays["returns"])
        self._lengths.extend(int(value) for value in arrays["lengths"])
        self.episodes = int(arrays["episodes"])
        for name, values in self._metrics.items():
            values.clear()
            values.extend(float(value) for value in arrays.get(f"metric-{name}", ()))


def _mean_of_known(values: Iterable[float]) -> float | None:
    known = [value for value in values if not math.isnan(value)]
    return math.fsum(known) / len(known) if known else None


def _end_of(path: Path, update: int) -> int:
    """Where the lines up to ``update`` end, in bytes. Lines are in the order of their updates."""
    end = 0
    with path.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n") or ((record := _record(line)) is not None and record["update"] > update):
                break
            end += len(line)
    return end


def _is_kept(line: bytes, update: int) -> bool:
    record = _record(line)
    return record is not None and bool(record["update"] <= update)


def _record(line: bytes) -> dict[str, Any] | None:
    """A line's values; None when it is not one of ours."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and isinstance(record.get("update"), int) else None


def _records(path: Path) -> Iterator[dict[str, Any]]:
    if path.exists() and not path.is_file():  # a pipe would be waited for, for ever
        raise BadInputError(f"{path}: cannot read metrics: not a plain file")
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    except OSError as error:
        raise BadInputError(f"{path}: cannot read metrics: {os_reason(error)}") from error
    with file:
        for line in file:
            if not line.endswith(b"\n"):
                return  # still being written, or cut off by a crash
            if (record := _record(line)) is not None:
                yield record


def _plain(value: Any) -> float | int | None:
    if value is None or isinstance(value, int):
        return value
    number = float(value)
    if not math.isfinite(number):
        return None
    return int(value) if isinstance(value, np.integer) else number


def _column(values: list[Any]) -> Array:
    if all(type(value) is int for value in values):
        try:
            return np.array(values, np.int64)
        except OverflowError:
            pass
    return np.array([float(value) if isinstance(value, int | float) else math.nan for value in values], np.float64)
