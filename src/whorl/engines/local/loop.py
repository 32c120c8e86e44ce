"""The loop that drives a role's generator in its own process: the only place where a role blocks."""

from __future__ import annotations

import select
import time

from whorl.engines.contract import Endpoint, RoleId, Wait
from whorl.engines.driving import Drive
from whorl.engines.local.line import RoleLine
from whorl.engines.local.polling import FdEndpoint
from whorl.engines.local.status import StatusClock

OVERDUE_S = 2.0
_OVERDUE_MAX_S = 32.0  # many idle roles must burn nearly nothing
_MAX_POLLERS = 64


class RoleLoop(Drive):
    """Sleeps by polling descriptors: the role's line and what it waits for."""

    def __init__(self, role: RoleId, line: RoleLine, clock: StatusClock, patience_s: float) -> None:
        super().__init__(role, clock, patience_s)
        self._line = line
        self._pollers: dict[tuple[Endpoint, ...], select.poll] = {}

    def _sleep_paused(self, wait: Wait) -> bool:
        now = time.monotonic()
        expiry = now + self._patience(wait)
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
                if (extended := self._extended(wait)) is None:
                    return False
                expiry = extended
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
