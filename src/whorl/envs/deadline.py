"""How long an environment step may take before it counts as a hang, and who is told."""

from __future__ import annotations

from typing import Any, Protocol

UNKNOWN_S = 300.0
LEARNT_AFTER_STEPS = 20
LEARNT_FACTOR = 20.0
LEARNT_AT_LEAST_S = 10.0


class StepClock(Protocol):
    """The part of a role's clock that lanes use: time from now on is the environment's, with a deadline."""

    def enter(self, phase: Any, deadline_s: float = 0.0, where: int = 0) -> None: ...


class NoClock:
    """For lanes that nobody watches: tests, probes, evaluation."""

    def enter(self, phase: Any, deadline_s: float = 0.0, where: int = 0) -> None:
        """Nothing to do."""


class StepDeadline:
    """A fixed deadline, or (0) one learnt: 300 s until 20 steps were seen, then 20 times the longest, at least 10 s."""

    def __init__(self, step_timeout_s: float = 0.0) -> None:
        self._learns = step_timeout_s == 0.0
        self._seen, self._longest_s = 0, 0.0
        self.seconds = UNKNOWN_S if self._learns else step_timeout_s

    def saw(self, duration_s: float, steps: int = 1) -> None:
        """Some steps that came back; for several at once, the time they took together."""
        if not self._learns:
            return
        self._seen += steps
        longer = duration_s > self._longest_s
        if longer:
            self._longest_s = duration_s
        if self._seen >= LEARNT_AFTER_STEPS and (longer or self.seconds == UNKNOWN_S):
            self.seconds = max(LEARNT_AT_LEAST_S, LEARNT_FACTOR * self._longest_s)
