"""How a run ended: ``result.json``."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from whorl.errors import BadInputError
from whorl.runs.files import os_reason, write_atomic
from whorl.runs.version import whorl_version

Status = Literal["completed", "stopped", "preempted", "failed"]


@dataclass(frozen=True)
class Staleness:
    """Weight versions between acting and learning, over all steps used. Null before the first."""

    mean: float | None = 0.0
    p99: float | None = 0.0
    max: int = 0


@dataclass(frozen=True)
class Transitions:
    """Where the environment steps went: collected = used + dropped + lost + in_flight. Reuse is counted apart."""

    collected: int = 0
    used: int = 0
    dropped: int = 0
    lost: int = 0
    in_flight: int = 0
    reused: int = 0

    @property
    def balanced(self) -> bool:
        """Nothing is unaccounted for."""
        return self.collected == self.used + self.dropped + self.lost + self.in_flight


@dataclass(frozen=True)
class Result:
    """What a run leaves behind in numbers. A value that does not exist (no episode ended) is null."""

    status: Status
    agent: str
    env: str
    workflow: str
    engine: str
    env_steps: int
    updates: int
    episodes: int
    return_mean: float | None
    """Over the last 100 episodes."""
    wall_s: float
    env_steps_per_s: float | None
    """Steady state: without start and compilation."""
    weights_sha256: str
    exact: bool
    """The same seed gives these weights again, bit for bit."""
    staleness: Staleness = field(default_factory=Staleness)
    transitions: Transitions = field(default_factory=Transitions)
    time_share: dict[str, dict[str, float]] = field(default_factory=dict)
    """Per kind of role: share of its time in environment, inference, learning, waiting, transfer."""
    resources: dict[str, dict[str, float]] = field(default_factory=dict)
    """Per kind of role: ``cpu_share``, ``memory_bytes`` (proportional), ``bytes_sent``."""
    restarts: dict[str, int] = field(default_factory=dict)
    """Per kind of role."""
    error: str | None = None
    """One line, when the run failed."""
    lost_role: bool = False
    """It failed because a role was lost that nobody could replace: going on from the last checkpoint may help."""
    failed_saves: int = 0
    seed: int | None = None
    whorl: str = field(default_factory=whorl_version)

    def write(self, path: Path) -> None:
        """Atomically: a reader sees the whole of it or the one before."""
        plain = _without_nan(msgspec.to_builtins(self))
        write_atomic(path, msgspec.json.format(msgspec.json.encode(plain), indent=2) + b"\n")

    @classmethod
    def read(cls, path: Path) -> Result:
        """Read a ``result.json``; fields that a later version added are ignored."""
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except OSError as error:
            raise BadInputError(f"{path}: cannot read the result: {os_reason(error)}") from error
        except (msgspec.MsgspecError, ValueError) as error:
            raise BadInputError(f"{path}: not a result of a run: {error}") from error


def _without_nan(value: Any) -> Any:
    """JSON has no NaN: what does not exist is null."""
    if isinstance(value, dict):
        return {name: _without_nan(entry) for name, entry in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
