"""Driving a role's generator in a process of its own: what every engine with processes does alike.

How a role sleeps is an engine's own: ``local`` polls descriptors, ``mpi`` looks again and again.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import Protocol

from whorl.engines import waits
from whorl.engines.contract import RoleGenerator, RoleId, Wait


class Dismissed(BaseException):
    """The supervisor hung up: the role ends, running its ``finally`` blocks."""


class PausableClock(Protocol):
    """What a loop needs of the role's clock."""

    def pause(self) -> None:
        """The role is blocked: time counts as waiting."""
        ...

    def resume(self) -> None:
        """The role goes on in the phase it was in."""
        ...

    def supervised_for_s(self) -> float:
        """How long the supervisor has been at work; 0 while the user's own code has the driver."""
        ...


class Drive(ABC):
    """Runs a generator until it ends."""

    def __init__(self, role: RoleId, clock: PausableClock, patience_s: float) -> None:
        self._role = role
        self._clock = clock
        self._patience_s = patience_s
        self._dismissed = False

    def drive(self, generator: RoleGenerator) -> None:
        """Step the generator; sleep whenever it waits for what is not there."""
        try:
            wait = next(generator)
            while True:
                for endpoint in wait.endpoints:
                    if getattr(endpoint, "glance", endpoint.ready)() and endpoint.ready():
                        break
                else:
                    if not self._sleep(wait):
                        wait = generator.throw(waits.expired(self._role, wait, self._patience(wait)))
                        continue
                wait = next(generator)
        except StopIteration:
            return
        finally:
            generator.close()

    def dismiss(self) -> None:
        """Raise ``Dismissed``, once: the ``finally`` blocks it sets going are not to be interrupted by another."""
        if not self._dismissed:
            self._dismissed = True
            raise Dismissed

    def settle(self) -> None:
        """The role is at its end: nothing is left to dismiss."""
        self._dismissed = True

    def _sleep(self, wait: Wait) -> bool:
        """Until an endpoint is ready (True) or the wait is over (False)."""
        self._clock.pause()
        try:
            return self._sleep_paused(wait)
        finally:
            self._clock.resume()

    @abstractmethod
    def _sleep_paused(self, wait: Wait) -> bool:
        """As ``_sleep``, while the clock counts the time as waiting."""

    def _patience(self, wait: Wait) -> float:
        return self._patience_s if wait.timeout_s is None else wait.timeout_s

    def _extended(self, wait: Wait) -> float | None:
        """A wait's time is over: when it really is (most of the time nobody may have been there to go on), or None
        when it is now."""
        left_s = self._patience(wait) - self._clock.supervised_for_s()
        return time.monotonic() + left_s if left_s > 0 else None
