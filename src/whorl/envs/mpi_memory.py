"""MPI's shared memory, without names.

MPI libraries give the memory that the ranks of a node share a name below ``/dev/shm`` and take it away when they
finalise: ranks that are killed leave it behind for good. A name is needed only until everybody has the memory mapped,
which is so when ``MPI_Init`` has returned at all ranks; from then on it can go, and nothing is left to be left.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

SHM = Path("/dev/shm")
_FORMS = ("mpich_shm_", "mpich_shar_tmp", "sm_segment.", "osc_sm.")
"""How the names of MPICH and Open MPI begin."""
_STALE_AFTER_S = 60.0
_OWN_STALE_AFTER_S = 2.0
_MOST_STEPS = 1000
_DELETED = " (deleted)"


def initialise_nameless(initialise: Callable[[], object], meet: Callable[[], object]) -> None:
    """Have MPI initialised, ``meet`` all ranks, and take away the names of the memory that this rank then shares."""
    sweep_stale()
    before = _mapped("self")
    initialise()
    meet()
    for path in _mapped("self") - before:
        with contextlib.suppress(OSError):
            Path(path).unlink()  # all of them do it: one is first


def sweep_stale(folder: Path = SHM) -> list[Path]:
    """Take away what ranks have left that were killed while MPI initialised; returns what went.

    Only what is ours, old and mapped by nobody. Should it be in use where we cannot see it, no harm is done: after so
    long a time everybody who shares it has it. Names that this very job step is going to take go sooner: a job that is
    requeued keeps its number, and MPICH waits for ever for whoever made the memory that it finds there. So do those of
    the steps before it in the same job, which this one is another try of."""
    now, own = time.time(), _own_forms(os.environ.get("PMI_JOBID", ""))
    stale = [
        path
        for path in folder.glob("*")
        if path.name.startswith(_FORMS)
        and _is_old_and_ours(path, now - (_OWN_STALE_AFTER_S if path.name.startswith(own) else _STALE_AFTER_S))
    ]
    if not stale:
        return []
    used = set().union(*(_mapped(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()))
    gone = [path for path in stale if str(path) not in used]
    for path in gone:
        with contextlib.suppress(OSError):
            path.unlink()
    return gone


def mpich_form(job_step: str) -> str:
    """How names begin that MPICH gives to memory of a job step: a hash (FNV-1a) of the launcher's name for it, in
    hexadecimal digits without leading zeros."""
    number = 0x811C9DC5
    for byte in job_step.encode():
        number = (number ^ byte) * 0x01000193 & 0xFFFFFFFF
    return f"mpich_shm_{number:x}_"


def _own_forms(job_step: str) -> tuple[str, ...]:
    """Of a job step and of those before it: Slurm calls them 4711.0, 4711.1 and so on."""
    job, dot, step = job_step.rpartition(".")
    if not (dot and step.isdecimal() and int(step) < _MOST_STEPS):
        return (mpich_form(job_step),)
    return tuple(mpich_form(f"{job}.{number}") for number in range(int(step) + 1))


def _is_old_and_ours(path: Path, limit: float) -> bool:
    try:
        found = path.stat()
    except OSError:
        return False
    return found.st_uid == os.geteuid() and found.st_mtime < limit


def _mapped(process: str) -> set[str]:
    """The named shared memory that a process has mapped."""
    try:
        lines = Path("/proc", process, "maps").read_text().splitlines()
    except OSError:
        return set()
    paths = {line.split(maxsplit=5)[5] for line in lines if f" {SHM}/" in line}
    return {path for path in paths if not path.endswith(_DELETED)}
