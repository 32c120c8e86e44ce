"""One supervisor owns every process: it passes messages on, notices deaths and hangs, replaces, and ends them all.

Signals are the driver's: here they only cut a sleep short.
"""

from __future__ import annotations

import time

from whorl.config.schema import EngineConfig
from whorl.engines.contract import Observer, Plan, RoleId
from whorl.engines.local.fleet import Fleet
from whorl.engines.local.hosted import Hosted
from whorl.engines.local.spawner import NurseryLostError
from whorl.engines.local.watch import Watch
from whorl.engines.members import Departure
from whorl.engines.paged import PagedSupervision
from whorl.engines.wire import Envelope
from whorl.errors import RoleLostError

_NURSERY = RoleId("nursery", 0)


class LocalCluster(PagedSupervision[Hosted]):
    """The running processes of a plan."""

    def __init__(self, plan: Plan, observer: Observer, config: EngineConfig, torch_threads: int) -> None:
        self._fleet = Fleet(plan, config, torch_threads)
        super().__init__(plan, observer, config)
        self._roles = self._fleet.roles
        self._watch = Watch(self._fleet, self, config.response_s)
        self._watch.also(self._wake.fileno(), self._wake.drain)
        try:
            for hosted in self._roles.values():
                if hosted.spec.parked:
                    hosted.rest()
                else:
                    self._fleet.start(hosted)
        except NurseryLostError as error:
            self.close()
            raise RoleLostError(f"the nursery died at the start ({error}); its output says why") from error
        except BaseException:
            self.close()
            raise

    # What the watch sees

    def on_frame(self, hosted: Hosted, head: Envelope, body: bytes) -> None:
        """A role's message."""
        self._take_in(hosted.id, head, body)

    def on_overdue(self, peers: list[RoleId]) -> None:
        """Somebody waits long for these: are they there?"""
        for peer in peers:
            self._watch.ping(peer)

    def on_departure(self, hosted: Hosted, departure: Departure) -> None:
        """A process died."""
        self._on_departure(hosted, departure)

    def on_nursery_lost(self) -> None:
        """Roles die with their nursery, so this is a restart of everything."""
        cause = "the nursery died, and every role with it"
        try:
            delay_s = self._budget.spend(_NURSERY, time.monotonic() - self._started, cause)
        except RoleLostError as error:
            self._fail(error)
            return
        self._restarts[_NURSERY.kind] += 1
        self._restart_all(delay_s)
        self._fleet.renew_nursery()
        self._observer.on_restart(_NURSERY, self._restarts[_NURSERY.kind], cause)

    # What supervision asks for

    def _deliver(self, target: Hosted, head: Envelope, body: bytes) -> None:
        self._watch.deliver(target, head, body)

    def _start(self, member: Hosted) -> bool:
        try:
            self._fleet.start(member)
        except NurseryLostError:
            self.on_nursery_lost()
            return False
        return True

    def _end_and_renew(self) -> None:
        self._fleet.end_processes(term_s=0.0)
        self._fleet.renew_endpoints()

    def _look(self, timeout_s: float) -> None:
        self._watch.look(self._until_next_start(timeout_s))
        self._start_due()
        self._watch.judge()

    def _end_everything(self) -> None:
        self._fleet.close()

    @property
    def pids(self) -> dict[RoleId, int]:
        """The running processes."""
        return {hosted.id: hosted.process.pid for hosted in self._roles.values() if hosted.process is not None}

    @property
    def nursery_pid(self) -> int:
        """The process that starts the others."""
        return self._fleet.spawner.pid
