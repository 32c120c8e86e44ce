"""A role's status page: where its time goes and what it is in the middle of, readable without asking it.

A page of int64 words in shared memory. A hung or stopped role cannot answer; its page can still be read. All words are
written by the role alone but one, by which the supervisor says whether it is there.
"""

from __future__ import annotations

import struct
from time import monotonic_ns
from typing import NamedTuple

from whorl.engines.contract import PHASES, Phase
from whorl.engines.local.memory import words_of

PAGE_BYTES = 4096

_PHASE, _SINCE, _DEADLINE, _WHERE, _ENTRIES, _SENT, _COUNTED, _SUPERVISED = range(8)
_SPENT = 8
_WORDS = _SPENT + len(PHASES)
_INDEX: dict[Phase, int] = {phase: index for index, phase in enumerate(PHASES)}
_pack_entry = struct.Struct("=5q").pack_into


class Progress(NamedTuple):
    """What a role is in the middle of. Times are of ``time.monotonic_ns``."""

    phase: Phase
    since_ns: int
    deadline_ns: int
    """0 when there is none."""
    where: int
    entries: int


class StatusClock:
    """The role's side: a clock that also says what is being done, and until when."""

    __slots__ = (
        "_deadline_ns",
        "_deadline_s",
        "_entries",
        "_page",
        "_phase",
        "_resumes_as",
        "_since_ns",
        "_spent",
        "_words",
    )

    def __init__(self, page: memoryview) -> None:
        self._page = page
        self._words = words_of(page, _WORDS)
        self._phase = _INDEX["other"]
        self._resumes_as: Phase = "other"
        self._entries = self._words[_ENTRIES]
        self._spent = [self._words[_SPENT + index] for index in range(len(PHASES))]  # a list is quicker to read
        self._since_ns = monotonic_ns()
        self._deadline_s, self._deadline_ns = 0.0, 0  # the last one asked for, which is nearly always the next
        self.enter("other")

    def enter(self, phase: Phase, deadline_s: float = 0.0, where: int = 0) -> None:
        now = monotonic_ns()
        spent, phase_before = self._spent, self._phase
        spent[phase_before] = total = spent[phase_before] + now - self._since_ns
        self._words[_SPENT + phase_before] = total
        self._since_ns = now
        self._phase = index = _INDEX[phase]
        self._entries = entries = self._entries + 1
        if deadline_s:
            if deadline_s != self._deadline_s:
                self._deadline_s, self._deadline_ns = deadline_s, int(deadline_s * 1e9)
            _pack_entry(self._page, 0, index, now, now + self._deadline_ns, where, entries)
        else:
            _pack_entry(self._page, 0, index, now, 0, where, entries)

    def pause(self) -> None:
        """The role is blocked: time counts as waiting."""
        self._resumes_as = PHASES[self._phase]
        self.enter("waiting")

    def resume(self) -> None:
        """The role goes on in the phase it was in."""
        self.enter(self._resumes_as)

    def count_sent(self, size_bytes: int) -> None:
        """Count bytes handed over."""
        self._words[_SENT] += size_bytes

    def at(self, where: int) -> None:
        self._words[_WHERE] = where

    def count(self, env_steps: int) -> None:
        self._words[_COUNTED] += env_steps

    def supervised_for_s(self) -> float:
        """How long the supervisor has been at work; 0 while the user's own code has the driver."""
        since_ns = self._words[_SUPERVISED]
        return 0.0 if since_ns < 0 else (monotonic_ns() - since_ns) / 1e9

    def shares(self) -> dict[str, float]:
        spent = [*self._spent]
        spent[self._phase] += monotonic_ns() - self._since_ns
        return {phase: ns / 1e9 for phase, ns in zip(PHASES, spent, strict=True)}


class StatusPage:
    """The supervisor's side: reads, and says whether it is there."""

    def __init__(self, page: memoryview) -> None:
        self._words = words_of(page, _WORDS)

    def supervise(self, at_work: bool) -> None:
        """Begin or cease to look after the role. What it waits for may then take as long as the user likes."""
        self._words[_SUPERVISED] = monotonic_ns() if at_work else -1

    @property
    def deadline_ns(self) -> int:
        """When the current entry becomes a hang; 0 for never."""
        return self._words[_DEADLINE]

    @property
    def bytes_sent(self) -> int:
        return self._words[_SENT]

    @property
    def counted(self) -> int:
        """Environment steps of this incarnation."""
        return self._words[_COUNTED]

    def progress(self) -> Progress:
        """A consistent view: read again while the role was writing."""
        while True:
            entries = self._words[_ENTRIES]
            phase, since, deadline, where = (self._words[index] for index in (_PHASE, _SINCE, _DEADLINE, _WHERE))
            if self._words[_ENTRIES] == entries:
                return Progress(PHASES[phase], since, deadline, where, entries)

    def shares(self, running: bool) -> dict[str, float]:
        """Seconds per phase over all incarnations, up to now when the role is running."""
        spent = [self._words[_SPENT + index] for index in range(len(PHASES))]
        now = self.progress()
        if running and now.entries:
            spent[_INDEX[now.phase]] += max(0, monotonic_ns() - now.since_ns)
        return {phase: ns / 1e9 for phase, ns in zip(PHASES, spent, strict=True)}

    def keep_a_copy(self) -> None:
        """Let go of the shared page; what it said last can still be read."""
        self._words = memoryview(bytearray(self._words)).cast("B").cast("q")

    def start_afresh(self) -> None:
        """Forget what a dead incarnation was in the middle of; times and bytes stay."""
        self._words[_PHASE], self._words[_SINCE] = _INDEX["other"], monotonic_ns()
        self._words[_DEADLINE] = self._words[_WHERE] = self._words[_COUNTED] = 0
