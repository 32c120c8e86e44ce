"""Waiting for a job to start, whichever batch system it is queued in."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass

from whorl.errors import WhorlError
from whorl.runs.status import one_line

_ANSWER_S = 60.0
_ASK_EVERY_S = 0.5


@dataclass(frozen=True)
class Queue:
    """How a batch system is asked for a job."""

    ask: tuple[str, ...]
    """The command, before the job's number."""
    is_over: Callable[[subprocess.CompletedProcess[str]], bool]
    """Whether it fails because the job is no longer there."""
    why_waiting: Callable[[str], str]
    """From what the command says; empty where the job waits no more."""
    cancel: str
    """The command that takes a job back."""

    def await_start(self, job: str, within_s: float) -> None:
        """Wait for the job to run; take it back where it does not in time. A command that fails is asked again until
        then, and the job left where it is: it may be running."""
        end = time.monotonic() + within_s
        while True:
            done = self._asked(job)
            why = "" if done.returncode else self.why_waiting(done.stdout)
            if (done.returncode and self.is_over(done)) or not (done.returncode or why):
                return
            if time.monotonic() > end:
                if done.returncode:
                    said = one_line(done.stderr) or "without a reason"
                    raise WhorlError(_not_known(job, f"{self.ask[0]} fails ({said})"))
                with contextlib.suppress(OSError, subprocess.SubprocessError):
                    subprocess.run([self.cancel, job], capture_output=True, timeout=_ANSWER_S, check=False)
                raise WhorlError(
                    f"job {job} did not start within {within_s:g} s ({why}) and was taken back: the partition or queue "
                    "is full, or has no such nodes free"
                )
            time.sleep(_ASK_EVERY_S)

    def _asked(self, job: str) -> subprocess.CompletedProcess[str]:
        words = [*self.ask, job]
        try:
            return subprocess.run(words, capture_output=True, text=True, timeout=_ANSWER_S, check=False)
        except (OSError, subprocess.SubprocessError):
            raise WhorlError(_not_known(job, f"{self.ask[0]} does not answer")) from None


def _not_known(job: str, why: str) -> str:
    return f"{why}: whether job {job} has started is not known; it was left as it is"
