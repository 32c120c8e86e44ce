"""What every supervisor of processes knows of a role, whatever the engine that runs it."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from whorl.engines.contract import Phase, Plan, RoleId, RoleSpec
from whorl.errors import BadInputError


@dataclass
class Member(ABC):
    """A role of the plan in whatever state it is."""

    spec: RoleSpec
    log_path: str
    incarnation: int = field(default=0, kw_only=True)
    ended: bool = field(default=False, kw_only=True)
    start_at: float | None = field(default=0.0, kw_only=True)
    loss: dict[str, Any] | None = field(default=None, kw_only=True)
    """What to tell about the last loss once the next incarnation runs."""
    deaths: Counter[int] = field(default_factory=Counter, kw_only=True)
    """In environments, since the last new update, by where."""
    parked: bool = field(default=False, kw_only=True)
    """Stays ended until it is asked for."""
    joins: bool = field(default=False, kw_only=True)
    """Asked for again before it had ended."""

    @property
    def id(self) -> RoleId:
        return self.spec.id

    @property
    @abstractmethod
    def running(self) -> bool:
        """There is an incarnation."""

    @property
    @abstractmethod
    def counted_lately(self) -> int:
        """Environment steps of the newest incarnation."""

    @property
    @abstractmethod
    def counted(self) -> int:
        """Environment steps of all incarnations."""

    @abstractmethod
    def shares(self) -> dict[str, float]:
        """Seconds per phase, of all incarnations."""

    @abstractmethod
    def usage(self) -> dict[str, float]:
        """CPU seconds of all incarnations, proportional memory when last seen, bytes sent."""

    @abstractmethod
    def start_afresh(self) -> None:
        """Forget what the last incarnation was in the middle of."""

    def schedule(self, delay_s: float) -> None:
        """The next incarnation is to start after a while."""
        self.incarnation += 1
        self.ended = False
        self.start_at = time.monotonic() + delay_s

    def rest(self) -> None:
        """Parked, and everything is told about the incarnations before."""
        self.parked, self.ended, self.start_at = True, True, None
        self.start_afresh()

    def note_loss(self, cause: str, phase: Phase = "other", where: int = 0) -> None:
        """What is to be told once the next incarnation is up."""
        self.loss = {"kind": self.id.kind, "index": self.id.index, "cause": cause, "phase": phase}
        self.loss |= {"where": max(where, 0), "counted": self.counted_lately, "lost_incarnation": self.incarnation}


@dataclass(frozen=True)
class Departure:
    """How an incarnation ended."""

    cause: str
    lived_s: float
    failure: Mapping[str, Any] | None
    """What it said of an exception."""
    phase: Phase
    where: int


def log_paths(plan: Plan) -> dict[RoleId, str]:
    """Where each role's output goes, in a folder that is there by then; empty texts where none is kept."""
    folder = plan.job.get("log_dir") or ""
    if not folder:
        return {spec.id: "" for spec in plan.roles}
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInputError(f"{folder}: cannot keep logs there: {error.strerror}") from error
    return {spec.id: str(Path(folder, f"{spec.id}.log").absolute()) for spec in plan.roles}
