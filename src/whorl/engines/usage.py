"""What processes use, read from /proc, and sums per kind of role."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path


def proportional_memory_bytes(pid: int | str) -> int:
    """A process's proportional set size: pages shared with others count in part. 0 when it is gone."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    for line in rollup.splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def state_and_cpu_s(pid: int) -> tuple[str, float]:
    """The state letter of ``ps`` and the CPU seconds used; ``("X", 0.0)`` when the process is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0], time.clock_gettime(_cpu_clock(pid))
    except OSError:
        return "X", 0.0


def _cpu_clock(pid: int) -> int:
    """The kernel's CPU clock of a process (``clock_getcpuclockid``): exact, where /proc counts whole ticks of 10 ms."""
    return (~pid << 3) | 2


def by_kind(rows: Iterable[tuple[str, Mapping[str, float]]]) -> dict[str, dict[str, float]]:
    """Sum the values of the roles of each kind."""
    table: dict[str, dict[str, float]] = {}
    for kind, values in rows:
        row = table.setdefault(kind, {})
        for name, value in values.items():
            row[name] = row.get(name, 0.0) + value
    return table
