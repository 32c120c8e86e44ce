"""When the batch job that this process runs in will be ended, and whether that is soon."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping

from whorl.errors import BadInputError

ASKED_S = "WHORL_JOB_SECONDS"
"""How long the script asked for; counted from the job's start where the batch system does not say when it ends."""
BEGAN = "WHORL_JOB_BEGAN"
_ANSWER_S = 10.0
_FORMS = (
    (r"(\d+)", (60,)),
    (r"(\d+):(\d+)", (60, 1)),
    (r"(\d+):(\d+):(\d+)", (3600, 60, 1)),
    (r"(\d+)-(\d+)", (86400, 3600)),
    (r"(\d+)-(\d+):(\d+)", (86400, 3600, 60)),
    (r"(\d+)-(\d+):(\d+):(\d+)", (86400, 3600, 60, 1)),
)


def seconds_of(text: str, option: str) -> int:
    """A length of time as Slurm writes it: ``90`` (minutes), ``1:30:00``, ``2-12``, ``2-12:00:00``."""
    for form, units in _FORMS:
        if found := re.fullmatch(form, text):
            seconds = sum(int(number) * unit for number, unit in zip(found.groups(), units, strict=True))
            if seconds:
                return seconds
    raise BadInputError(
        f"{option}: expected a time as 90 (minutes), 1:30:00 (hours) or 2-12:00:00 (days); got {text!r}"
    )


def clock(seconds: int) -> str:
    """As hours, minutes and seconds: ``36:00:00``."""
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def job_end(environ: Mapping[str, str] = os.environ) -> float | None:
    """When the job will be ended, in seconds since 1970; None without a job, or where it has no end. The batch system
    is asked first: a limit may have been changed."""
    if job := environ.get("SLURM_JOB_ID"):
        end = _slurm_end(job)
        if end is None and environ.get("SLURM_JOB_END_TIME", "").isdigit():
            end = float(environ["SLURM_JOB_END_TIME"])
        if end is not None:
            return end
    elif (job := environ.get("PBS_JOBID")) and (end := _pbs_end(job)) is not None:
        return end
    if environ.get(ASKED_S, "").isdigit() and environ.get(BEGAN, "").isdigit():
        return float(int(environ[BEGAN]) + int(environ[ASKED_S]))
    return None


def _slurm_end(job: str) -> float | None:
    said = _asked("squeue", "--noheader", "--jobs", job, "--format", "%e").split()
    with contextlib.suppress(ValueError, IndexError):
        return time.mktime(time.strptime(said[0], "%Y-%m-%dT%H:%M:%S"))
    return None


def _pbs_end(job: str) -> float | None:
    said = _asked("qstat", "-f", job)
    limit = re.search(r"Resource_List\.walltime = (\d+):(\d+):(\d+)", said)
    began = re.search(r"\bstime = (.+)", said)
    if limit is None or began is None:
        return None
    with contextlib.suppress(ValueError):
        start = time.mktime(time.strptime(began[1].strip(), "%a %b %d %H:%M:%S %Y"))
        return start + int(limit[1]) * 3600 + int(limit[2]) * 60 + int(limit[3])
    return None


def _asked(*words: str) -> str:
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(words, capture_output=True, text=True, timeout=_ANSWER_S, check=True).stdout
    return ""


class TimeLimit:
    """The end of the job, looked at between two updates. ``ahead_s`` before it there is time for a last save only; of a
    short job a quarter of what is left at the start."""

    def __init__(self, ahead_s: float, find_end: Callable[[], float | None] = job_end) -> None:
        self._find_end = find_end
        left_s = self._left_s()
        self._ahead_s = 0.0 if left_s is None else min(ahead_s, max(0.0, left_s) / 4)
        self._stop_at = None if left_s is None else time.monotonic() + left_s - self._ahead_s

    def is_near(self) -> bool:
        """Time to save and stop; asks again first whether the limit was raised meanwhile."""
        if self._stop_at is None or time.monotonic() < self._stop_at:
            return False
        left_s = self._left_s()
        if left_s is None or left_s <= self._ahead_s:
            return True
        self._stop_at = time.monotonic() + left_s - self._ahead_s
        return False

    def _left_s(self) -> float | None:
        end = self._find_end()
        return None if end is None else end - time.time()
