"""Endpoints a process can sleep on."""

from __future__ import annotations

import os
import select
from collections.abc import Callable


class FdEndpoint:
    """Ready when a function says so; a sleeper is woken by the descriptor. The function drains stale wake-ups.

    ``glance``, where it is given, is much cheaper to ask: if that is not so, ``ready`` cannot be. It drains nothing, so
    that who was woken by the descriptor must ask ``ready``."""

    __slots__ = ("_poll", "fd", "glance", "ready")

    def __init__(self, fd: int, ready: Callable[[], bool], glance: Callable[[], bool] | None = None) -> None:
        self.fd = fd
        self.ready = ready
        self.glance = glance or ready
        self._poll: select.poll | None = None

    def poll_now(self) -> bool:
        """True when the descriptor is readable at this moment."""
        if self._poll is None:
            self._poll = select.poll()
            self._poll.register(self.fd, select.POLLIN)
        return bool(self._poll.poll(0))


def ring(doorbells: list[int]) -> None:
    """Wake the sleepers on these eventfds."""
    for doorbell in doorbells:
        os.eventfd_write(doorbell, 1)


def silence(doorbell: int) -> None:
    """Take back the wake-ups of an eventfd."""
    try:
        os.eventfd_read(doorbell)
    except BlockingIOError:
        return


def create_doorbell() -> int:
    """A new eventfd."""
    return os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
