"""What every supervisor of processes decides alike: who is started, replaced or left to rest, and who is told.

Where the roles live and how bytes reach them is an engine's own business: ``local`` has them as children, ``ray`` in
stations on other machines, ``mpi`` as ranks. All subclass ``Supervision`` for the mechanics.
"""

from __future__ import annotations

import contextlib
import logging
import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, Self, TypeVar

from whorl import errors
from whorl.config.schema import EngineConfig
from whorl.engines.contract import JOINED, SUPERVISOR, Message, Observer, Plan, RoleId
from whorl.engines.members import Departure, Member
from whorl.engines.restarts import RestartBudget
from whorl.engines.usage import by_kind
from whorl.engines.waking import WakePipe
from whorl.engines.wire import Envelope, decode_body, encode_body, envelope
from whorl.errors import RoleLostError, WhorlError

_LOOK_EVERY_S = 0.2

_log = logging.getLogger("whorl.engines")


M = TypeVar("M", bound=Member)


class Supervision(ABC, Generic[M]):
    """Decides; an engine's subclass does."""

    def __init__(self, plan: Plan, observer: Observer, config: EngineConfig) -> None:
        self._observer = observer
        self._started = time.monotonic()
        self._inbox: deque[Message] = deque()
        restarting_all = frozenset(spec.id for spec in plan.roles if spec.on_loss == "restart_all")
        self._budget = RestartBudget(config.max_restarts, config.max_restarts_without_progress, restarting_all)
        self._carriers = plan.carriers
        self._restarts: Counter[str] = Counter({spec.id.kind: 0 for spec in plan.roles})
        self._error: WhorlError | None = None
        self._roles: dict[RoleId, M] = {}
        self._wake = WakePipe()
        self._closed_after_s: float | None = None

    # Mechanics, the engine's own

    @abstractmethod
    def _deliver(self, target: M, head: Envelope, body: bytes) -> None:
        """To the running incarnation. When there is none, drop it: the next would not know what it is about."""

    def _can_start(self, member: M) -> bool:  # noqa: ARG002
        """Whether there is a place for it yet."""
        return True

    def _beyond_replacing(self, member: M, departure: Departure) -> WhorlError | None:  # noqa: ARG002
        """What the run ends with, on an engine where nobody can take the place of this one."""
        return None

    @abstractmethod
    def _start(self, member: M) -> bool:
        """Start an incarnation; False when everything has been changed instead."""

    @abstractmethod
    def _end_and_renew(self) -> None:
        """Kill everybody and make every endpoint afresh."""

    @abstractmethod
    def _look(self, timeout_s: float) -> None:
        """Sleep until something happens, then see to it."""

    @abstractmethod
    def _say_at_work(self, at_work: bool) -> None:
        """Tell the roles whether the driver looks after them: they are patient while it is in the user's own loop."""

    @abstractmethod
    def _end_everything(self) -> None:
        """End every process, in bounded time."""

    def _ask_around(self, usage: bool) -> None:
        """Have members know how things are now, where that is not known anyway."""

    # Messages

    def send(self, to: RoleId, kind: str, body: Mapping[str, Any] | None = None) -> None:
        """A message of the driver to a role."""
        if to not in self._roles:
            raise ValueError(f"{kind!r} was sent to {to}, which the plan does not have")
        self._deliver(self._roles[to], envelope(SUPERVISOR, to, kind), encode_body(body))

    def _take_in(self, sender: RoleId, head: Envelope, body: bytes) -> None:
        """A role's message: for the driver, or for another role."""
        if head.to_id == SUPERVISOR:
            message = Message(sender, head.kind, decode_body(body))
            if head.kind == "metrics" and sender.kind == "learner":
                self._on_progress(message.body["update"])
            if head.kind == "recovered":
                self._budget.recovered(RoleId(message.body["kind"], message.body["index"]))
            self._inbox.append(message)
        elif head.to_id in self._roles:
            self._deliver(self._roles[head.to_id], head, body)
        else:
            self._fail(WhorlError(f"{sender} sent {head.kind!r} to {head.to_id}, which the plan does not have"))

    def _on_progress(self, update: int) -> None:
        """There was an update; one that is new makes up for old deaths."""
        if self._budget.progress(update):
            for member in self._roles.values():
                member.deaths.clear()

    # The loop

    def run(self, until: Callable[[], bool], timeout_s: float | None = None) -> None:
        """Supervise until the condition holds, the roles that carry the plan ended, or the time is over."""
        end = time.monotonic() + timeout_s if timeout_s is not None else float("inf")
        with self._at_work():
            while True:
                while self._inbox:
                    self._observer.on_message(self._inbox.popleft())
                    if until():
                        return
                if self._error is not None:
                    raise self._error
                now = time.monotonic()
                if until() or now >= end or all(self._roles[role].ended for role in self._carriers):
                    return
                self._look(min(_LOOK_EVERY_S, end - now))

    @contextlib.contextmanager
    def _at_work(self) -> Iterator[None]:
        with self._wake.listening():
            self._say_at_work(True)
            try:
                yield
            finally:
                self._say_at_work(False)

    def _until_next_start(self, timeout_s: float) -> float:
        """How long to sleep when somebody is to be started before that."""
        starts = [member.start_at for member in self._roles.values() if member.start_at is not None]
        return max(0.0, min(timeout_s, min(starts) - time.monotonic())) if starts else timeout_s

    def _start_due(self) -> None:
        now = time.monotonic()
        for member in self._roles.values():
            if member.start_at is None or now < member.start_at or self._error is not None:
                continue
            if member.parked and not member.joins and not self._is_needed(member):
                self._let_rest(member)  # who needed it has ended meanwhile
                continue
            if not self._can_start(member):
                continue  # it is still due
            if not self._start(member):
                return
            self._tell_of_loss(member)

    # Coming and going

    def park(self, roles: Iterable[RoleId]) -> None:
        """Leave these as they are once they have ended."""
        leaving = [self._roles[role] for role in roles]
        for member in leaving:
            member.parked, member.joins = True, False
        for member in leaving:
            if member.start_at is not None and not self._is_needed(member):
                self._let_rest(member)

    def start(self, roles: Iterable[RoleId]) -> None:
        """Start parked roles, or have them start when they have ended."""
        for member in map(self._roles.__getitem__, roles):
            if member.running or member.start_at is not None:
                member.joins = member.parked
            elif member.parked:
                self._join(member)

    def _is_needed(self, member: M) -> bool:
        """A role that leaves has not ended yet, and goes on with this one until then: an actor with its
        environments."""
        told = (self._roles[role] for role in member.spec.notify)
        return any(other.parked and other.running for other in told)

    def _let_rest(self, member: M) -> None:
        """Lost while it left: there is to be none in its place."""
        self._tell_of_loss(member)
        member.rest()

    def _join(self, member: M) -> None:
        member.parked = member.joins = False
        member.note_loss(JOINED)
        member.schedule(0.0)

    # Losses

    def _on_departure(self, member: M, departure: Departure) -> None:
        """An incarnation is gone, ``member.ended`` says whether it had come to its end: what to do about it."""
        cause = departure.cause
        needed = not member.ended and self._is_needed(member)
        if member.joins and not needed:
            self._join(member)
            return
        if member.ended:
            return
        if member.parked and not needed:
            member.note_loss(cause)
            self._let_rest(member)
            return
        if departure.failure is not None and departure.failure["final"]:
            self._fail(final_error(departure.failure))
            return
        if (end := self._beyond_replacing(member, departure)) is not None:
            self._fail(end)
            return
        try:
            delay_s = self._budget.spend(member.id, departure.lived_s, cause)
        except RoleLostError as error:
            self._fail(RoleLostError(f"{error}; see {member.log_path}" if member.log_path else str(error)))
            return
        _log.info("%s (incarnation %d) was lost: %s", member.id, member.incarnation, cause)
        self._restarts[member.id.kind] += 1
        member.note_loss(cause, departure.phase, departure.where)
        if departure.phase == "environment":
            member.deaths[departure.where] += 1
        if member.spec.on_loss == "restart_all":
            self._restart_all(delay_s)
        else:
            member.schedule(delay_s)

    def _tell_of_loss(self, member: M) -> None:
        """The replacement runs (or there is to be none): tell the observer and the roles that want to know."""
        if member.loss is None:
            return
        incarnation = member.incarnation + (not member.running)
        loss, member.loss = {**member.loss, "incarnation": incarnation}, None
        if loss["cause"] != JOINED:
            self._observer.on_restart(member.id, incarnation, loss["cause"])
        for role in member.spec.notify:
            self._deliver(self._roles[role], envelope(SUPERVISOR, role, "lost"), encode_body(loss))

    def _restart_all(self, delay_s: float) -> None:
        """Kill everybody, make every endpoint afresh, start everybody again."""
        self._end_and_renew()
        for member in self._roles.values():
            if member.spec.on_loss == "replace":
                member.loss = None  # who would be told of it begins anew as well
            if member.parked and not member.joins:
                member.rest()
            else:
                member.parked = member.joins = False
                member.schedule(delay_s)

    def _fail(self, error: WhorlError) -> None:
        """The run cannot go on; ``run`` raises this once the messages sent before are delivered."""
        self._error = self._error or error

    # Reports, and the end

    @property
    def restarts(self) -> dict[str, int]:
        """Restarts per kind of role."""
        return dict(self._restarts)

    def resources(self) -> dict[str, dict[str, float]]:
        """Per kind, summed over its roles: cores used since the launch, proportional memory, bytes sent."""
        self._ask_around(usage=True)
        wall_s = self._closed_after_s or max(time.monotonic() - self._started, 1e-9)
        table = by_kind([(member.id.kind, member.usage()) for member in self._roles.values()])
        for row in table.values():
            row["cpu_share"] = row.pop("cpu_s") / wall_s
        return table

    def time_shares(self) -> dict[str, dict[str, float]]:
        """Seconds per phase, summed over the roles of each kind."""
        return by_kind([(member.id.kind, member.shares()) for member in self._roles.values()])

    def counted(self, kind: str) -> int:
        """Environment steps counted by the roles of this kind, lost ones included."""
        self._ask_around(usage=False)
        return sum(member.counted for member in self._roles.values() if member.id.kind == kind)

    def close(self) -> None:
        """End every process, in bounded time. A second call does nothing; the reports stay."""
        if self._closed_after_s is not None:
            return
        self._ask_around(usage=False)
        self._closed_after_s = time.monotonic() - self._started
        self._end_everything()
        self._wake.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def final_error(failure: Mapping[str, Any]) -> WhorlError:
    """The error a role raised on purpose, again in the driver."""
    for name in failure["types"]:
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, WhorlError):
            error = kind(failure["message"])
            error.add_note(failure["traceback"])
            return error
    return WhorlError(failure["message"])
