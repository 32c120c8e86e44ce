"""The loop that drives a role's generator in its own process: the only place where a role blocks."""

from __future__ import annotations

import select
import time

from whorl.engines import waits
from whorl.engines.contract import Endpoint, RoleGenerator, RoleId, Wait
from whorl.engines.local.line import RoleLine
from whorl.engines.local.polling import FdEndpoint
from whorl.engines.local.status import StatusClock

OVERDUE_S = 2.0
_OVERDUE_MAX_S = 32.0  # many idle roles must burn nearly nothing
_MAX_POLLERS = 64


class Dismissed(BaseException):
    """The supervisor hung up: the role ends, running its ``finally`` blocks."""


class RoleLoop:
    """Runs a generator until it ends."""

    def __init__(self, role: RoleId, line: RoleLine, clock: StatusClock, patience_s: float) -> None:
        self._role = role
        self._line = line
        self._clock = clock
        self._patience_s = patience_s
        self._dismissed = False
        self._pollers: dict[tuple[Endpoint, ...], select.poll] = {}

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
                        waited_s = self._patience_s if wait.timeout_s is None else wait.timeout_s
                        wait = generator.throw(waits.expired(self._role, wait, waited_s))
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

    def _sleep_paused(self, wait: Wait) -> bool:
        now = time.monotonic()
        patience_s = self._patience_s if wait.timeout_s is None else wait.timeout_s
        expiry = now + patience_s
        overdue_every_s = OVERDUE_S
        overdue_at = now + overdue_every_s if wait.peers else expiry
        poller = self._poller(wait.endpoints)
        line = self._line.frames
        while True:
            poller.modify(line.fileno(), select.POLLIN | (select.POLLOUT if line.outgoing_bytes else 0))
            fired = {fd for fd, _ in poller.poll(max(0.0, min(expiry, overdue_at) - now) * 1000 + 1)}
            if line.fileno() in fired:
                self._line.pump()
                line.flush()
                if line.hung_up:
                    self.dismiss()
            for endpoint in wait.endpoints:
                if endpoint.fd in fired and endpoint.ready():  # type: ignore[attr-defined]  # as `_poller` has seen
                    return True
            now = time.monotonic()
            if now >= expiry:
                left_s = patience_s - self._clock.supervised_for_s()
                if left_s <= 0:
                    return False
                expiry = now + left_s  # most of the time nobody was there to go on
            if now >= overdue_at:
                self._line.send_control("overdue", {"peers": [(peer.kind, peer.index) for peer in wait.peers]})
                overdue_every_s = min(4 * overdue_every_s, _OVERDUE_MAX_S)
                overdue_at = now + overdue_every_s

    def _poller(self, endpoints: tuple[Endpoint, ...]) -> select.poll:
        """One poll object per set of endpoints; roles wait for the same few sets again and again."""
        poller = self._pollers.get(endpoints)
        if poller is None:
            poller = select.poll()
            poller.register(self._line.frames.fileno(), select.POLLIN)
            for endpoint in endpoints:
                if not isinstance(endpoint, FdEndpoint):
                    raise TypeError(f"{self._role} waits for a {type(endpoint).__name__}, which cannot wake a process")
                if endpoint.fd != self._line.frames.fileno():
                    poller.register(endpoint.fd, select.POLLIN)
            if len(self._pollers) >= _MAX_POLLERS:
                self._pollers.clear()
            self._pollers[endpoints] = poller
        return poller

    def flush(self, timeout_s: float) -> None:
        """Send what is left before the process ends, in bounded time."""
        line = self._line.frames
        poller = select.poll()
        poller.register(line.fileno(), select.POLLOUT)
        end = time.monotonic() + timeout_s
        while line.outgoing_bytes and time.monotonic() < end:
            poller.poll(100)
            line.flush()
