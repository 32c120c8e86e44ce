"""The supervisor's knowledge of one role, and its judgement of it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from whorl import errors
from whorl.engines.contract import Phase, RoleId, RoleSpec
from whorl.engines.local.line import FrameSocket
from whorl.engines.local.rolemain import STARTING
from whorl.engines.local.spawner import Exit, describe_exit
from whorl.engines.local.status import Progress, StatusPage
from whorl.engines.usage import proportional_memory_bytes, state_and_cpu_s
from whorl.errors import WhorlError

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
class Hosted:
    """A role of the plan in whatever state it is."""

    spec: RoleSpec
    status_descriptor: int
    page: StatusPage
    log_path: str
    incarnation: int = 0
    process: Process | None = None
    ended: bool = False
    start_at: float | None = 0.0
    loss: dict[str, Any] | None = None
    """What to tell about the last loss once the next incarnation runs."""
    deaths: Counter[int] = field(default_factory=Counter)
    """In environments, since the last new update, by where."""
    parked: bool = False
    """Stays ended until it is asked for."""
    joins: bool = False
    """Asked for again before it had ended."""
    past_cpu_s: float = 0.0
    past_counted: int = 0
    memory_bytes: int = 0

    @property
    def id(self) -> RoleId:
        return self.spec.id

    def schedule(self, delay_s: float) -> None:
        """The next incarnation is to start after a while."""
        self.incarnation += 1
        self.ended = False
        self.start_at = time.monotonic() + delay_s

    def rest(self) -> None:
        """Parked, and everything is told about the incarnations before."""
        self.parked, self.ended, self.start_at = True, True, None
        self.page.start_afresh()

    def note_loss(self, cause: str, phase: Phase = "other", where: int = 0) -> None:
        """What is to be told once the next incarnation is up."""
        self.loss = {"kind": self.id.kind, "index": self.id.index, "cause": cause, "phase": phase}
        self.loss |= {"where": max(where, 0), "counted": self.page.counted, "lost_incarnation": self.incarnation}

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
                return _hung(progress, now)
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
            stopped = not limited and state_and_cpu_s(process.pid)[0] in "Tt"
            process.stopped_at = (process.stopped_at or now) if stopped else 0.0
        if process.stopped_at and now - process.stopped_at > response_s:
            return f"did not answer for {now - process.stopped_at:.1f} s: its process is stopped"
        return ""

    def _judge_silence(self, process: Process, ping: _Ping, now: float, response_s: float) -> str:
        progress = self.page.progress()
        if progress.entries != ping.entries:
            process.ping = None  # it moved on by itself
        elif now - ping.sent > response_s:
            state, cpu_s = state_and_cpu_s(process.pid)
            if self.spec.torch and cpu_s > ping.cpu_s:  # a long update: busy, and not to be judged by its silence
                process.ping = None
            else:
                stopped = ": its process is stopped" if state in "Tt" else ""
                return f"did not answer for {now - ping.sent:.1f} s{stopped}"
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


def _hung(progress: Progress, now: float) -> str:
    lasted_s = now - progress.since_ns / 1e9
    if progress.where == STARTING:
        return f"did not start within {lasted_s:.1f} s"
    doing = f"the environment of lane {progress.where}" if progress.phase == "environment" else progress.phase
    return f"hung in {doing} for {lasted_s:.1f} s"


def final_error(failure: dict[str, Any]) -> WhorlError:
    """The error a role raised on purpose, again in the driver."""
    for name in failure["types"]:
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, WhorlError):
            error = kind(failure["message"])
            error.add_note(failure["traceback"])
            return error
    return WhorlError(failure["message"])
