"""Signals set a flag; the training loop looks at it between updates. A second signal changes nothing, unless nobody has
looked for long: a step of an environment in this process that does not return."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any, Protocol, Self

from whorl.errors import PreemptedError, StalledError

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
    noted instead of killing the process. Only the main thread can do this.

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
            self._received, self._received_at = "the end of the job's time", time.monotonic()
        self._looked = self._received is not None
        return self._received

    def hold(self, limit: Limit | None = None) -> None:
        """The run begins: from now on signals are noted, and the run is saved before it ends; in time before ``limit``,
        too."""
        self._holds, self._limit = True, limit

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
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
