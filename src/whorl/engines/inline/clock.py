"""A role's clock in one thread: nobody judges it, it only measures."""

from __future__ import annotations

from time import perf_counter_ns

from whorl.engines.contract import PHASES, Phase


class InlineClock:
    """Nanoseconds per phase."""

    def __init__(self) -> None:
        self._spent_ns = dict.fromkeys(PHASES, 0)
        self._phase: Phase = "waiting"
        self._resumes_as: Phase = "other"
        self._since_ns = perf_counter_ns()
        self.bytes_sent = 0
        self.counted = 0

    def enter(self, phase: Phase, deadline_s: float = 0.0, where: int = 0) -> None:  # noqa: ARG002
        now = perf_counter_ns()
        self._spent_ns[self._phase] += now - self._since_ns
        self._since_ns = now
        self._phase = phase

    def at(self, where: int) -> None:
        """Nobody asks."""

    def count(self, env_steps: int) -> None:
        self.counted += env_steps

    def pause(self) -> None:
        """The role is blocked: time counts as waiting."""
        self._resumes_as = self._phase
        self.enter("waiting")

    def resume(self) -> None:
        """The role goes on in the phase it was in."""
        self.enter(self._resumes_as)

    def shares(self) -> dict[str, float]:
        self.enter(self._phase)
        return {phase: spent / 1e9 for phase, spent in self._spent_ns.items()}
