"""Keeping a badly behaved environment's side effects inside it, as far as one process allows.

What cannot be contained here (a segfault, a held GIL, a leak without end) needs a process of its own: ``hosting``.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

CONTAINED = (Exception, SystemExit, KeyboardInterrupt, GeneratorExit)
"""What counts as "the environment raised". ``exit()`` inside an environment ends an episode and not the actor."""

CLOSE_TIMEOUT_S = 5.0

_GUARDED_SIGNALS = tuple(int(getattr(signal, f"SIG{name}")) for name in ("INT", "TERM", "HUP", "USR1", "USR2", "CHLD"))
_getsignal: Callable[[int], Any] = importlib.import_module("_signal").getsignal


def is_users_interrupt(error: BaseException) -> bool:
    """Whether a KeyboardInterrupt is the user's Ctrl-C: only where Python's own handler would have raised it."""
    return isinstance(error, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) is signal.default_int_handler


class SideEffectsUndone:
    """Puts signal handlers and the working directory back after an environment's own code ran.

    A plain class with the interpreter's own ``getsignal``: it surrounds every reset, and this costs 2 microseconds
    instead of 20.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._handlers: list[Any] = []

    def __enter__(self) -> None:
        self._handlers = [_getsignal(number) for number in _GUARDED_SIGNALS]

    def __exit__(self, *_: object) -> None:
        for number, handler in zip(_GUARDED_SIGNALS, self._handlers, strict=True):
            if _getsignal(number) != handler and handler is not None:
                with contextlib.suppress(ValueError):  # not the main thread, where nobody can set one anyway
                    signal.signal(number, handler)
        if current_directory() != self._directory:
            with contextlib.suppress(OSError):
                os.chdir(self._directory)


def current_directory() -> str:
    """The working directory, or an empty string when it has been removed."""
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:
        return ""


def close_quietly(env: Any) -> None:
    """Close an environment; never raises, and never takes longer than ``CLOSE_TIMEOUT_S``.

    A thread does the closing because nothing else can leave a call that does not return.
    """

    def close() -> None:
        with contextlib.suppress(*CONTAINED):
            env.close()

    thread = threading.Thread(target=close, name="whorl-close", daemon=True)
    thread.start()
    thread.join(CLOSE_TIMEOUT_S)
