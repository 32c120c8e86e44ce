"""The driver's knowledge of one rank, and its judgement of it."""

from __future__ import annotations

import contextlib
import signal
import time
from dataclasses import dataclass, field
from typing import Any

from whorl.engines.local.hosted import hung
from whorl.engines.members import Departure
from whorl.engines.mpi.pages import RankPage
from whorl.engines.paged import PagedMember
from whorl.engines.usage import proportional_memory_bytes, state_and_cpu_s


@dataclass
class Seat(PagedMember):
    """A role at its rank."""

    page: RankPage
    rank: int
    node: str = ""
    pidfd: int = -1
    at_work: bool = False
    lost: bool = False
    """Its process is gone: nobody will ever sit here again."""
    condemned: str = ""
    """Why the driver has killed it."""
    reported: int = 0
    """The last report of its page that was asked for and came."""
    past_counted: int = 0
    memory_bytes: int = 0
    cpu_s: float = 0.0
    _signs: tuple[int, int, float] = (0, 0, 0.0)
    """Of life, when last seen: entries, beats, CPU seconds."""
    _quiet_since: float = field(default_factory=time.monotonic)
    _began: float = field(default_factory=time.monotonic)

    @property
    def running(self) -> bool:
        return self.at_work

    def begin(self) -> None:
        """The rank has been told to run its role."""
        self.at_work, self.start_at = True, None
        self._began = self._quiet_since = time.monotonic()

    def leave(self) -> None:
        """The role has ended or failed; its rank sleeps."""
        self.past_counted += self.page.counted
        self.at_work = False

    def departure(self, cause: str, failure: dict[str, Any] | None = None) -> Departure:
        """How the incarnation that was here has ended."""
        progress = self.page.progress()
        return Departure(cause, time.monotonic() - self._began, failure, progress.phase, progress.where)

    def verdict(self, now: float, response_s: float) -> str:
        """Why this rank counts as lost; empty when it does not. Ranks on other nodes are not judged."""
        if not self.page.pid:
            return ""
        progress = self.page.progress()
        state, cpu_s = state_and_cpu_s(self.page.pid)
        stopped = ": its process is stopped" if state in "Tt" else ""
        if progress.deadline_ns:
            self._quiet_since = now
            return f"{hung(progress, now)}{stopped}" if now * 1e9 > progress.deadline_ns else ""
        signs = (progress.entries, self.page.beats, round(cpu_s, 2))
        if signs != self._signs or state in "RD":  # who waits for a busy processor or disk would answer if it could
            self._signs, self._quiet_since = signs, now
        if now - self._quiet_since > response_s:
            return f"did not answer for {now - self._quiet_since:.1f} s{stopped}"
        return ""

    def signal(self, number: signal.Signals) -> None:
        """By pidfd, so never somebody else's process."""
        if self.pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, number)
                signal.pidfd_send_signal(self.pidfd, signal.SIGCONT)  # a stopped process cannot obey

    @property
    def counted(self) -> int:
        """Environment steps of all incarnations."""
        return self.past_counted + (self.page.counted if self.at_work else 0)

    def usage(self) -> dict[str, float]:
        """CPU seconds and proportional memory when last seen, bytes sent."""
        if self.page.pid:
            self.cpu_s = max(self.cpu_s, state_and_cpu_s(self.page.pid)[1])
            self.memory_bytes = proportional_memory_bytes(self.page.pid) or self.memory_bytes
        return {
            "cpu_s": self.cpu_s,
            "memory_bytes": float(self.memory_bytes),
            "bytes_sent": float(self.page.bytes_sent),
        }
