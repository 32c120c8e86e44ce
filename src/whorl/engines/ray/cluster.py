"""The supervisor of a plan on a Ray cluster: it decides as every supervisor does, and stations do.

It sits in the driver and speaks to one process only, its envoy. A role that is lost is started again by its station,
within milliseconds; a station that is lost, alone or with its node, is opened again wherever Ray finds room.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from whorl.config.schema import EngineConfig, Resources
from whorl.engines.contract import SUPERVISOR, Message, Observer, Plan, RoleId
from whorl.engines.members import Departure, log_paths
from whorl.engines.ray.link import Frame, Link
from whorl.engines.ray.places import Place, Places
from whorl.engines.ray.remote import Remote
from whorl.engines.ray.units import check_nodes, check_room, needed, units_of
from whorl.engines.supervision import Supervision
from whorl.engines.wire import Envelope, decode_body
from whorl.errors import RoleLostError

CONNECT_S = 120.0
OPEN_S = 120.0
"""Nothing moves on for longer than this while a unit has no place."""
TELL_S = 10.0
"""A unit without a place is told of after this long."""
RENEW_S = 20.0
REFRESH_S = 5.0


class RayCluster(Supervision[Remote]):
    """The running roles of a plan on a Ray cluster."""

    def __init__(self, plan: Plan, observer: Observer, config: EngineConfig, resources: Resources) -> None:
        units = units_of(plan, config, resources)
        paths = log_paths(plan)
        super().__init__(plan, observer, config)
        self._places = Places(plan, units, config, resources)
        self._roles = {spec.id: Remote(spec, paths[spec.id], self._places.unit_of[spec.id]) for spec in plan.roles}
        self._epoch = 0
        """How often everybody was started again."""
        self._all_open = False
        """Roles start when every station is up: nobody is to wait for those that have no place yet."""
        self._moved_at = time.monotonic()
        """When there last was an update, or the driver came back."""
        self._report_number = 0
        self._handed_over: dict[str, int] = {}
        """How often each channel was written, as its reader's station has seen it."""
        working = tuple(place.unit for place in self._places if self._has_work(place))
        setup = {
            "address": config.address,
            "token_file": config.token_file,
            "namespace": f"whorl-{os.getpid()}-{time.monotonic_ns()}",
            "needed": needed(units),
            "sys_path": [os.fsencode(str(path)) for path in sys.path],
        }
        log_folder = plan.job.get("log_dir") or ""
        self._link = Link(setup, str(Path(log_folder, "ray.log").absolute()) if log_folder else "", self._wake)
        try:
            ready = self._link.expect("ready", CONNECT_S)
            check_room(needed(working), ready["has"], config.address)
            check_nodes(working, ready["nodes"], config.address)
            self._open_first()
        except BaseException:
            self.close()
            raise

    def _has_work(self, place: Place) -> bool:
        return any(not self._roles[role].spec.parked for role in place.unit.roles)

    def _open_first(self) -> None:
        self._places.introduce(self._link)
        for place in self._places:
            if self._has_work(place):
                self._open(place)
        for remote in self._roles.values():
            if remote.spec.parked:
                remote.rest()
        end = time.monotonic() + OPEN_S
        while self._error is None and (opening := [place for place in self._places if place.state == "opening"]):
            if time.monotonic() > end:
                raise RoleLostError(
                    f"Ray found no place for {opening[0].unit} within {OPEN_S:g} s; is the cluster in use?"
                )
            self._look(0.2)
        if self._error is not None:
            raise self._error
        self._observer.on_placed(list(self._places.table()))
        self._all_open = True
        self._start_due()

    # Stations

    def _open(self, place: Place) -> None:
        if place.generation >= 0:
            self._ask_around(usage=False)  # how much its predecessor had handed over
        self._places.open(self._link, place, self._epoch, self._handed_over)

    def _on_lost_station(self, place: Place, cause: str) -> None:
        """With everything on it: its roles are lost, and what they had not handed over."""
        place.state = "closed"
        gone = [self._roles[role] for role in place.unit.roles if self._roles[role].alive]
        if gone:
            # Others know how far its roles had counted. It may be alive behind a broken link: from here on they refuse
            # what it sends, or it would be counted as lost and used as well.
            for other in self._places.up:
                grave = {"unit": place.unit.index, "generation": place.generation}
                self._places.order(self._link, other, "bury", grave)
            self._ask_around(usage=False)
        for remote in gone:
            remote.leave_station()
            remote.depart(ended=False)
        epoch = self._epoch
        for remote in gone:
            if self._epoch == epoch:  # else everybody is started again anyway
                self._on_departure(remote, Departure(f"its station was lost: {cause}", 0.0, None, "other", 0))
                if remote.loss is None:  # its count is told; the next incarnation begins at nothing
                    remote.start_afresh()
        if not gone and self._error is None and place.asked_at:
            try:
                self._budget.spend(place.unit.roles[0], 0.0, f"its station was lost: {cause}")
            except RoleLostError as error:
                self._fail(error)

    def _close_if_idle(self, place: Place) -> None:
        """Nobody is there any more or about to come: what was set aside for the unit is for others."""
        here = [self._roles[role] for role in place.unit.roles]
        if place.state in ("opening", "up") and all(
            one.parked and not one.alive and one.start_at is None for one in here
        ):
            for remote in here:
                remote.leave_station()
            self._places.drop(self._link, place)

    # What the envoy brings

    def _look(self, timeout_s: float) -> None:
        if not self._link.pending:
            self._link.receive(self._until_next_start(timeout_s))
        while self._link.pending:
            self._heed(self._link.pending.popleft())
        if self._link.lost:
            self._fail(RoleLostError("the Ray cluster was lost, its head or our envoy; `whorl resume` goes on"))
        self._start_due()

    def _heed(self, frame: Frame) -> None:
        head, body = frame
        if not head.control:
            self._take_in(head.sender_id, head, body)
            return
        words = decode_body(body)
        if head.kind == "overdue":
            for peer in words["peers"]:
                remote = self._roles.get(RoleId(*peer))
                if remote is not None and remote.alive:
                    self._places.order(self._link, self._places[remote.unit], "ping", {"role": peer})
            return
        place = self._places[words["unit"]]
        if words["generation"] != place.generation:
            return  # of one that is lost already
        match head.kind:
            case "report":
                self._on_report(place, words)
            case "departed":
                self._on_departed(words)
            case "up" if place.state == "opening":  # else it is not wanted any more
                place.state, place.pid = "up", words["pid"]
                place.node, place.address = words["node"], words["address"]
                self._places.order(self._link, place, "at_work", {"at_work": True})
            case "renewed":
                place.epoch = words["epoch"]
            case "lost" if place.state != "closed":
                self._on_lost_station(place, words["cause"])

    def _on_report(self, place: Place, words: Mapping[str, Any]) -> None:
        for row in words["roles"]:
            self._roles[RoleId(*row["role"])].report(row)
        for kind, index, incarnation, counted in words["carried"]:
            self._roles[RoleId(kind, index)].count(incarnation, counted)
        self._handed_over.update(words["arrived"])
        place.reported = max(place.reported, words["number"])

    def _on_departed(self, words: Mapping[str, Any]) -> None:
        remote = self._roles[RoleId(*words["role"])]
        if not remote.alive or words["incarnation"] != remote.incarnation:
            return
        remote.count(words["incarnation"], words["counted"])
        remote.depart(words["ended"])
        departure = Departure(words["cause"], words["lived_s"], words["failure"], words["phase"], words["where"])
        self._on_departure(remote, departure)
        self._close_if_idle(self._places[remote.unit])

    def _await(self, done: Callable[[Place], bool], timeout_s: float, kinds: tuple[str, ...]) -> None:
        """See to frames of these kinds alone, until every station that is up is done."""
        end, others = time.monotonic() + timeout_s, []
        while not all(done(place) for place in self._places.up):
            if time.monotonic() > end or self._link.lost:
                break
            if not self._link.pending:
                self._link.receive(end - time.monotonic())
            while self._link.pending:
                frame = self._link.pending.popleft()
                if frame[0].control and frame[0].kind in kinds:
                    self._heed(frame)
                else:
                    others.append(frame)
                    self._mark_lost(frame)
        self._link.pending.extendleft(reversed(others))

    def _mark_lost(self, frame: Frame) -> None:
        """A station of which this says that it is lost will not answer; it is seen to later."""
        if frame[0].control and frame[0].kind == "lost":
            words = decode_body(frame[1])
            place = self._places[words["unit"]]
            if place.generation == words["generation"]:
                place.state = "lost"

    # What supervision asks for

    def _deliver(self, target: Remote, head: Envelope, body: bytes) -> None:
        if target.alive:
            self._link.send(head, body)

    def park(self, roles: Iterable[RoleId]) -> None:
        """Leave these as they are once they have ended; who has no place yet does not wait for one any more."""
        leaving = list(roles)
        super().park(leaving)
        for unit in {self._places.unit_of[role] for role in leaving}:
            self._close_if_idle(self._places[unit])

    def _can_start(self, member: Remote) -> bool:
        place = self._places[member.unit]
        if not self._all_open:
            return False
        if place.state == "closed" and not self._link.lost:
            self._open(place)
        elif place.state == "opening":
            self._wait_for_room(place)
        return place.state == "up"

    def _wait_for_room(self, place: Place) -> None:
        """As long as the others go on, a unit waits: a node may join, or others give back what they had."""
        now = time.monotonic()
        if now - max(place.asked_at, self._moved_at) > OPEN_S:
            self._fail(
                RoleLostError(f"Ray found no place for {place.unit} within {OPEN_S:g} s; is the cluster in use?")
            )
        elif now - place.asked_at > TELL_S and not place.told:
            place.told = True
            text = f"there is no room for {place.unit} on the Ray cluster; it begins when a node joins or others leave"
            self._inbox.append(Message(SUPERVISOR, "warning", {"text": text}))

    def _on_progress(self, update: int) -> None:
        self._moved_at = time.monotonic()
        super()._on_progress(update)

    def _start(self, member: Remote) -> bool:
        member.begin()
        order = {"role": [member.id.kind, member.id.index], "incarnation": member.incarnation}
        order["deaths"] = [[where, times] for where, times in member.deaths.items()]
        self._places.order(self._link, self._places[member.unit], "start", order)
        return True

    def _end_and_renew(self) -> None:
        self._ask_around(usage=False)
        for remote in self._roles.values():
            if remote.alive:
                remote.depart(ended=False)
        self._epoch += 1
        self._handed_over.clear()
        for place in self._places:
            if place.state == "up":
                self._places.order(self._link, place, "renew", {"epoch": self._epoch})
            elif place.state == "opening":
                self._places.drop(self._link, place)
        self._await(lambda place: place.epoch == self._epoch, RENEW_S, ("renewed", "report", "lost"))
        for place in self._places.up:
            if place.epoch != self._epoch:
                self._places.drop(self._link, place)

    def _ask_around(self, usage: bool) -> None:
        """Have every station say how things are now."""
        if self._closed_after_s is not None or self._link.lost:
            return
        self._report_number += 1
        number = self._report_number
        for place in self._places.up:
            self._places.order(self._link, place, "report", {"usage": usage, "number": number})
        self._await(lambda place: place.reported >= number, REFRESH_S, ("report",))

    def _say_at_work(self, at_work: bool) -> None:
        self._moved_at = time.monotonic()
        for place in self._places.up:
            if not self._link.lost:
                self._places.order(self._link, place, "at_work", {"at_work": at_work})

    def _end_everything(self) -> None:
        self._link.close()

    # For whoever looks closely

    @property
    def station_pids(self) -> dict[RoleId, int]:
        """The process of each station, by its first role."""
        return {place.unit.roles[0]: place.pid for place in self._places.up}

    @property
    def nodes(self) -> dict[RoleId, str]:
        """On which of Ray's nodes each role is."""
        return {role: place.node for place in self._places.up for role in place.unit.roles}

    @property
    def addresses(self) -> dict[RoleId, str]:
        """The address of the node that each role is on."""
        return {role: place.address for place in self._places.up for role in place.unit.roles}

    @property
    def envoy_pid(self) -> int:
        """The process that speaks to Ray."""
        return self._link.pid
