"""Signals with a Python handler also end the current sleep of a supervisor."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator


class WakePipe:
    """A pipe that signals write into while they are listened to."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def fileno(self) -> int:
        return self._read

    def drain(self) -> None:
        """Take back the wake-ups."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._read, 4096)

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """In the main thread, and unless somebody else has a wake-up descriptor."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        previous = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        if previous != -1:
            signal.set_wakeup_fd(previous)
        try:
            yield
        finally:
            if previous == -1:
                signal.set_wakeup_fd(-1)

    def close(self) -> None:
        os.close(self._read)
        os.close(self._write)
