"""The supervisor's knowledge of one role, and its judgement of it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass, field
from typing import Any

from whorl.engines.local.line import FrameSocket
from whorl.engines.local.rolemain import STARTING
from whorl.engines.local.spawner import Exit, describe_exit
from whorl.engines.local.status import Progress
from whorl.engines.paged import PagedMember
from whorl.engines.usage import proportional_memory_bytes, state_and_cpu_s

_HANG_UP_GRACE_S = 1.0
_ANSWER_HOLDS_S = 1.0


@dataclass
class Process:
    """A running incarnation."""

    pid: int
    pidfd: int
    frames: FrameSocket
    started: float = field(default_factory=time.monotonic)
    said_ended: bool = False
    failure: dict[str, Any] | None = None
    condemned: str = ""
    """Why the supervisor killed it."""
    hung_up_at: float = 0.0
    ping: _Ping | None = None
    answered_at: float = 0.0
    looked_at: float = 0.0
    stopped_at: float = 0.0
    """When it was first seen to be stopped (SIGSTOP); 0: it was not."""
    cpu_s: float = 0.0
    """Used when last seen."""

    def signal(self, number: signal.Signals) -> None:
        """By pidfd, so never somebody else's process."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, number)

    def condemn(self, cause: str) -> None:
        """Kill it for a reason; SIGKILL works on stopped processes too."""
        self.condemned = self.condemned or cause
        self.signal(signal.SIGKILL)

    def close(self) -> None:
        self.frames.close()
        os.close(self.pidfd)


@dataclass(frozen=True)
class _Ping:
    sent: float
    entries: int
    cpu_s: float


@dataclass
class Hosted(PagedMember):
    """A role of the plan whose processes are children of this one's nursery."""

    status_descriptor: int
    process: Process | None = None
    past_cpu_s: float = 0.0
    past_counted: int = 0
    memory_bytes: int = 0

    @property
    def running(self) -> bool:
        return self.process is not None

    def overdue(self, now: float) -> bool:
        """Somebody waits long for this role: True when it should be pinged."""
        process = self.process
        if process is None or process.ping is not None or process.condemned:
            return False
        if now - process.answered_at < _ANSWER_HOLDS_S:
            return False
        progress = self.page.progress()
        if progress.deadline_ns:  # it is inside something that has a limit of its own
            return False
        process.ping = _Ping(now, progress.entries, state_and_cpu_s(process.pid)[1])
        return True

    def verdict(self, now: float, response_s: float) -> str:
        """Why this role must be killed; empty when it need not."""
        process = self.process
        if process is None or process.condemned:
            return ""
        if self.page.deadline_ns and now * 1e9 > self.page.deadline_ns:
            progress = self.page.progress()
            if progress.deadline_ns and now * 1e9 > progress.deadline_ns:
                return f"{hung(progress, now)}{_if_stopped(process)}"
        if process.hung_up_at and now - process.hung_up_at > _HANG_UP_GRACE_S:
            return "closed its line to the supervisor"
        if process.ping is not None:
            return self._judge_silence(process, process.ping, now, response_s)
        return self._judge_stopped(process, now, response_s)

    def _judge_stopped(self, process: Process, now: float, response_s: float) -> str:
        """Nobody may be waiting for it, as in workflows without an order; it is lost to them all the same."""
        if now - process.looked_at >= response_s / 2:  # a look at each of hundreds is not for nothing
            process.looked_at = now
            limited = self.page.deadline_ns  # it is inside something that has a limit of its own
            stopped = not limited and _is_stopped(process)
            process.stopped_at = (process.stopped_at or now) if stopped else 0.0
        if process.stopped_at and now - process.stopped_at > response_s:
            return f"did not answer for {now - process.stopped_at:.1f} s{_if_stopped(process)}"
        return ""

    def _judge_silence(self, process: Process, ping: _Ping, now: float, response_s: float) -> str:
        progress = self.page.progress()
        if progress.entries != ping.entries:
            process.ping = None  # it moved on by itself
        elif now - ping.sent > response_s:
            if self.spec.torch and state_and_cpu_s(process.pid)[1] > ping.cpu_s:
                process.ping = None  # a long update: busy, and not to be judged by its silence
            else:
                return f"did not answer for {now - ping.sent:.1f} s{_if_stopped(process)}"
        return ""

    def cause_of(self, process: Process, end: Exit | None) -> str:
        """One line on why a process is gone."""
        if process.condemned:
            return process.condemned
        if process.failure is not None:
            return str(process.failure["line"])
        if end is None:
            return "gone without a trace"
        before = ", before its role had ended" if end.status == 0 else ""
        progress = self.page.progress()
        place = f" in the environment of lane {progress.where}" if progress.phase == "environment" else ""
        return describe_exit(end.status) + place + before

    @property
    def counted(self) -> int:
        """Environment steps of all incarnations."""
        return self.past_counted + (self.page.counted if self.process is not None else 0)

    def usage(self) -> dict[str, float]:
        """CPU seconds over all incarnations, proportional memory when last seen, bytes sent."""
        cpu_s = self.past_cpu_s
        if self.process is not None:
            self.process.cpu_s = max(self.process.cpu_s, state_and_cpu_s(self.process.pid)[1])  # 0 when just gone
            cpu_s += self.process.cpu_s
            self.memory_bytes = proportional_memory_bytes(self.process.pid) or self.memory_bytes
        return {"cpu_s": cpu_s, "memory_bytes": float(self.memory_bytes), "bytes_sent": float(self.page.bytes_sent)}


def hung(progress: Progress, now: float) -> str:
    """Where a role hangs, and for how long."""
    lasted_s = now - progress.since_ns / 1e9
    if progress.where == STARTING:
        return f"did not start within {lasted_s:.1f} s"
    doing = f"the environment of lane {progress.where}" if progress.phase == "environment" else progress.phase
    return f"hung in {doing} for {lasted_s:.1f} s"


def _is_stopped(process: Process) -> bool:
    return state_and_cpu_s(process.pid)[0] in "Tt"


def _if_stopped(process: Process) -> str:
    """To be added to what is said of a silent process."""
    return ": its process is stopped" if _is_stopped(process) else ""
