"""Signals set a flag; the training loop looks at it between updates. A second signal changes nothing, unless nobody has
looked for long: a step of an environment in this process that does not return."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Protocol, Self

from whorl.errors import PreemptedError, StalledError

TIME_IS_OVER = "the end of the job's time"
USER_SIGNALS = (signal.SIGUSR1, signal.SIGUSR2)
"""What ``sbatch --signal`` and its like send ahead of the end, to every process of a job's steps."""
WARNINGS = (signal.SIGTERM, *USER_SIGNALS)
"""Of a batch system's, which all ranks of a job need not get."""
UNHEARD_S = 10.0
"""After so long, a Ctrl-C that nobody has looked at may be repeated, and then ends the run as it is."""


class _NothingToSave(BaseException):
    """Thrown by the handler itself; no ``except Exception`` of an environment's code may swallow it."""


class _InterruptedAmidst(BaseException):
    """Thrown likewise into whatever does not return."""


class Limit(Protocol):
    """Something that is over at some time: the batch job that the process runs in."""

    def is_near(self) -> bool: ...


class StopSignals:
    """While entered, SIGTERM, SIGINT and SIGHUP (the terminal was closed; not where it is ignored, as by ``nohup``) are
    noted instead of killing the process, and so are SIGUSR1 and SIGUSR2, which batch systems warn with, where nobody
    else takes care of them. Only the main thread can do this.

    Until ``hold`` is called there is nothing to save: a signal then ends the ``with`` block at once with
    ``PreemptedError``.
    """

    def __init__(self) -> None:
        self._received: str | None = None
        self._received_at = 0.0
        self._looked = False
        self._holds = False
        self._limit: Limit | None = None
        self._before: dict[signal.Signals, Any] = {}

    @property
    def received(self) -> str | None:
        """The name of the first signal that came; or that the job's time is nearly over, which counts as one."""
        if self._received is None and self._limit is not None and self._limit.is_near():
            self._received, self._received_at = TIME_IS_OVER, time.monotonic()
        self._looked = self._received is not None
        return self._received

    def hold(self, limit: Limit | None = None) -> None:
        """The run begins: from now on signals are noted, and the run is saved before it ends; in time before ``limit``,
        too."""
        self._holds, self._limit = True, limit

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            taken = [signal.SIGTERM, signal.SIGINT]
            taken += [signal.SIGHUP] * (signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN)
            taken += [number for number in USER_SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
            for number in taken:
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if isinstance(error, _NothingToSave):
            raise PreemptedError(f"stopped by {self.received} before the run had begun; start it again") from None
        if isinstance(error, _InterruptedAmidst):
            raise StalledError(
                "interrupted in the midst of something that does not return, without a last save: the run can be "
                "resumed from its last checkpoint; with --engine local, environments that hang are replaced"
            ) from None

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self._received is None:
            self._received, self._received_at = signal.Signals(number).name, time.monotonic()
            if not self._holds:
                raise _NothingToSave
        elif number == signal.SIGINT and not self._looked and time.monotonic() - self._received_at > UNHEARD_S:
            raise _InterruptedAmidst


class HeldPreemption:
    """Between ``begin`` and ``end``, what a batch system says before it ends a job is noted: SIGTERM, SIGHUP, SIGUSR1,
    SIGUSR2, or that the job's time is nearly over. For a run under the user's own loop.

    Does nothing where somebody else takes care of SIGTERM, and outside the main thread. A signal that nobody has looked
    at for long kills when it is repeated, as it would without us.
    """

    def __init__(self) -> None:
        self._received: str | None = None
        self._received_at = 0.0
        self._looked = False
        self._limit: Limit | None = None
        self._held: list[signal.Signals] = []

    @property
    def received(self) -> str | None:
        """What came first."""
        if self._received is None and self._limit is not None and self._limit.is_near():
            self._received = TIME_IS_OVER
        self._looked = self._received is not None
        return self._received

    def begin(self, find_limit: Callable[[], Limit]) -> None:
        """Listen; to the limit, too, which is looked for only then."""
        in_main_thread = threading.current_thread() is threading.main_thread()
        if not in_main_thread or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return
        for number in (signal.SIGTERM, signal.SIGHUP, *USER_SIGNALS):
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, self._note)
                self._held.append(number)
        self._limit = find_limit()

    def end(self) -> None:
        """Leave the signals as they were found."""
        self._limit = None
        if threading.current_thread() is threading.main_thread():
            for number in self._held:
                if signal.getsignal(number) == self._note:
                    signal.signal(number, signal.SIG_DFL)
            self._held.clear()

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self._received is None:
            self._received, self._received_at = signal.Signals(number).name, time.monotonic()
        elif not self._looked and time.monotonic() - self._received_at > UNHEARD_S:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)


class HeldInterrupt:
    """While entered, the user's Ctrl-C is noted, and raised at the end of the ``with`` block: never in the middle of an
    update, after which a run could not go on and not even be saved. A second one is raised at once.

    Does nothing where somebody else takes care of SIGINT, an outer block of this kind included.
    """

    def __init__(self) -> None:
        self.came = False
        self._holds = False

    def __enter__(self) -> Self:
        in_main_thread = threading.current_thread() is threading.main_thread()
        if in_main_thread and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._note)
            self._holds = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._holds:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self.came and error is None:
            raise KeyboardInterrupt

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        if self.came:
            signal.signal(signal.SIGINT, signal.default_int_handler)  # so that it is known as the user's own
            raise KeyboardInterrupt
        self.came = True
