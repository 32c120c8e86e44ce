"""Who runs trials: a protocol; ``LocalExecutor`` and ``RayExecutor`` are the two who do.

An order is plain data, a trial's run directory is all that comes back besides an exit code, and nothing but a shared
file system is assumed between the two: a cluster's scheduler can serve as well as processes of this machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

END_S = 60.0
"""How long a trial that is asked to end may take to save; it is then killed."""


@dataclass(frozen=True)
class Order:
    """What a trial's process is to do. Everything in it travels as JSON."""

    number: int
    run_dir: str
    log: str
    layer: dict[str, Any]
    """Its file: the tables that ``whorl train FILE`` would read."""
    source: str
    """How messages name that file."""
    function: str = ""
    """``module:function`` in place of plain training."""
    until_env_steps: int = 0
    """Stop (saved, to be continued) at the first update that reaches this; 0: go on to the end."""


class Executor(Protocol):
    """Starts trials in slots, and says which have ended."""

    @property
    def slots(self) -> int:
        """Trials at a time."""
        ...

    def start(self, order: Order) -> None:
        """Run it in a free slot. Where a run directory is there already, go on with it."""
        ...

    def stop(self, number: int) -> None:
        """Ask a trial to save and to end (exit code 75). One that does not within ``END_S`` is killed; one
        that waits for a place, or has lost it, counts as saved: a resumed study goes on with it."""
        ...

    def wait(self, timeout_s: float) -> Sequence[Ended]:
        """The trials that have ended since, waiting for one so long at most."""
        ...

    def close(self) -> None:
        """End what still runs, in bounded time. A second call does nothing."""
        ...


@dataclass(frozen=True)
class Ended:
    """A trial's process has ended."""

    number: int
    code: int
    """Its exit code; negative for a signal."""
    error: str = ""
    """Why, where that is known better than from what the process has left."""


def log_tail(path: Path) -> str:
    """The last line a trial's process printed, for a message."""
    try:
        lines = path.read_bytes()[-20_000:].decode(errors="replace").split("\n")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
