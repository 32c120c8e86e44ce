"""Every role in one thread: a role runs until it waits for something that is not there, then the next has its turn.

The order is the plan's, so a run is the same each time, wherever ``run`` is interrupted. Errors come out as they are.
A role in the middle of long work yields ``waits.BREATH`` now and then: whoever called ``run`` looks at signals, and if
it sends something, the others have their turn.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from whorl.engines import waits
from whorl.engines.contract import (
    JOINED,
    SUPERVISOR,
    Cluster,
    Message,
    Observer,
    Plan,
    Role,
    RoleGenerator,
    RoleId,
    RoleSpec,
    Wait,
)
from whorl.engines.entries import begin_role, load_entry
from whorl.engines.faults import VARIABLE, parse_faults
from whorl.engines.inline.clock import InlineClock
from whorl.engines.inline.endpoints import (
    BoardValues,
    ChannelSlots,
    InlineBoard,
    InlineChannel,
    InlineGroup,
    InlineLine,
    Meeting,
    needed_bytes,
)
from whorl.engines.local.limits import check_memory
from whorl.engines.usage import by_kind, proportional_memory_bytes
from whorl.engines.wire import plain_copy
from whorl.errors import StalledError

_LOOK_EVERY_S = 0.05


@dataclass
class _Turn:
    """A role and where it stands."""

    spec: RoleSpec
    generator: RoleGenerator
    line: InlineLine
    clock: InlineClock
    incarnation: int = 0
    counted_before: int = 0
    """Environment steps of earlier incarnations."""
    wait: Wait | None = None
    blocked_since: float = field(default_factory=time.monotonic)
    ended: bool = False
    parked: bool = False
    joins: bool = False
    """Asked for again before it had ended."""

    @property
    def id(self) -> RoleId:
        return self.spec.id


class InlineEngine:
    """One thread, one process."""

    name = "inline"

    def check(self, plan: Plan) -> None:
        """Refuse a plan that cannot be, or that does not fit into the memory."""
        plan.check()
        plan.check_without_ranks()
        check_memory(needed_bytes(plan))
        parse_faults(os.environ.get(VARIABLE, ""))

    def launch(self, plan: Plan, observer: Observer, instead_of: Cluster | None = None) -> InlineCluster:
        """Make the roles; nothing runs before ``run``."""
        if instead_of is not None:
            instead_of.close()
        self.check(plan)
        return InlineCluster(plan, observer)


class InlineCluster:
    """The roles of one thread."""

    def __init__(self, plan: Plan, observer: Observer) -> None:
        self._observer = observer
        self._outbox: deque[Message] = deque()
        self._started = time.monotonic()
        self._turn = 0
        self._unheard = 0
        """Turns until everybody has had one since the driver sent something."""
        self._idle_turns = 0
        self._job, self._carriers = plan.job, plan.carriers
        self._shared = _shared_endpoints(plan)
        self._roles = [self._make_role(spec) for spec in plan.roles]
        self._by_id = {turn.id: turn for turn in self._roles}

    def _make_role(self, spec: RoleSpec) -> _Turn:
        clock, line = InlineClock(), InlineLine(spec.id, self._post)
        generator = self._begin(spec, line, clock, incarnation=0)
        return _Turn(spec, generator, line, clock, ended=spec.parked, parked=spec.parked)

    def _begin(self, spec: RoleSpec, line: InlineLine, clock: InlineClock, incarnation: int) -> RoleGenerator:
        def end_of(name: str) -> InlineChannel | InlineBoard | InlineGroup:
            thing = self._shared[name]
            if isinstance(thing, ChannelSlots):
                return InlineChannel(thing, clock)
            if isinstance(thing, BoardValues):
                return InlineBoard(thing, clock)
            return InlineGroup(thing, thing.spec.members.index(spec.id), clock)

        arguments = {
            argument: end_of(wired) if isinstance(wired, str) else [end_of(name) for name in wired]
            for argument, wired in spec.endpoints.items()
        }
        role = Role(spec.id, incarnation, line, clock, plain_copy(self._job))
        return begin_role(load_entry(spec.entry), role, arguments)

    def park(self, roles: Iterable[RoleId]) -> None:
        """Leave these as they are once they have ended."""
        for turn in map(self._by_id.__getitem__, roles):
            turn.parked, turn.joins = True, False

    def start(self, roles: Iterable[RoleId]) -> None:
        """Start parked roles, or have them start when they have ended."""
        for turn in map(self._by_id.__getitem__, roles):
            if not turn.ended:
                turn.joins = turn.parked
            elif turn.parked:
                self._join(turn)

    def _join(self, turn: _Turn) -> None:
        """A further incarnation, of which those are told who want to know."""
        turn.parked = turn.joins = turn.ended = False
        turn.wait = None
        self._idle_turns = 0
        turn.incarnation += 1
        turn.line.inbox.clear()
        counted, turn.counted_before = turn.clock.counted - turn.counted_before, turn.clock.counted
        turn.generator = self._begin(turn.spec, turn.line, turn.clock, turn.incarnation)
        told: dict[str, Any] = {
            "kind": turn.id.kind,
            "index": turn.id.index,
            "incarnation": turn.incarnation,
            "cause": JOINED,
        }
        told |= {"phase": "other", "where": 0, "counted": counted, "lost_incarnation": turn.incarnation - 1}
        for role in turn.spec.notify:
            self.send(role, "lost", told)

    def _post(self, to: RoleId, message: Message) -> None:
        if to == SUPERVISOR:
            self._outbox.append(message)
        elif to not in self._by_id:
            raise ValueError(f"{message.sender} sent {message.kind!r} to {to}, which the plan does not have")
        elif not self._by_id[to].ended:  # the next incarnation would not know what it is about
            self._by_id[to].line.inbox.append(message)

    def send(self, to: RoleId, kind: str, body: Mapping[str, Any] | None = None) -> None:
        """A message of the driver to a role."""
        self._unheard = len(self._roles)
        self._idle_turns = 0
        self._post(to, Message(SUPERVISOR, kind, plain_copy(body or {})))

    def run(self, until: Callable[[], bool], timeout_s: float | None = None) -> None:
        """Run the roles in turn until the condition holds, those that carry the plan ended, or the time is over."""
        end = time.monotonic() + timeout_s if timeout_s is not None else float("inf")
        looked = 0.0
        if self._deliver(until):  # what was sent when the condition held the last time
            return
        while True:
            now = time.monotonic()
            if now - looked > _LOOK_EVERY_S:
                if until() or now > end or all(self._by_id[role].ended for role in self._carriers):
                    return
                looked = now
            turn = self._roles[self._turn]
            has_gone_on = self._step(turn, now)
            if turn.wait is not waits.BREATH or turn.ended or self._unheard:
                self._turn = (self._turn + 1) % len(self._roles)
                self._unheard = max(0, self._unheard - 1)
            if has_gone_on:
                self._idle_turns = 0
                if self._outbox and self._deliver(until):
                    return
                if turn.ended:
                    looked = 0.0
            else:
                self._idle_turns += 1
                if self._idle_turns > len(self._roles):
                    if until():  # it may have come to hold since the last look
                        return
                    self._sleep_until_an_expiry(end)

    def _step(self, turn: _Turn, now: float) -> bool:
        """Let a role go on to its next wait. False when it cannot."""
        if turn.ended:
            return False
        wait = turn.wait
        expiry: StalledError | None = None
        if wait is not None:
            for endpoint in wait.endpoints:
                if endpoint.ready():
                    break
            else:
                if wait.timeout_s is None or now - turn.blocked_since < wait.timeout_s:
                    return False
                expiry = waits.expired(turn.id, wait, now - turn.blocked_since)
        turn.clock.resume()
        try:
            turn.wait = next(turn.generator) if expiry is None else turn.generator.throw(expiry)
        except StopIteration:
            turn.ended = True
            if turn.joins:
                self._join(turn)
        except Exception:
            turn.ended = True
            self._deliver(lambda: False)  # what it said before it failed
            raise
        finally:
            turn.clock.pause()
            turn.blocked_since = time.monotonic()
        return True

    def _deliver(self, until: Callable[[], bool]) -> bool:
        """Hand messages to the observer; True when the condition holds."""
        while self._outbox:
            self._observer.on_message(self._outbox.popleft())
            if until():
                return True
        return False

    def _sleep_until_an_expiry(self, end: float) -> None:
        """No role can go on: only the expiry of a wait with a time of its own can change that."""
        waiting = [(turn, turn.wait) for turn in self._roles if not turn.ended and turn.wait is not None]
        expiries = [turn.blocked_since + wait.timeout_s for turn, wait in waiting if wait.timeout_s is not None]
        if not waiting:
            return
        if not expiries:
            reasons = "; ".join(f"{turn.id} waits for {wait.waiting_for}" for turn, wait in waiting)
            raise StalledError(f"no role can go on: {reasons}")
        time.sleep(max(0.0, min(min(expiries), end, time.monotonic() + _LOOK_EVERY_S) - time.monotonic()))

    @property
    def restarts(self) -> dict[str, int]:
        """None: what dies here takes the run with it."""
        return {turn.id.kind: 0 for turn in self._roles}

    def resources(self) -> dict[str, dict[str, float]]:
        """CPU share is the time not spent waiting; memory is the one process's, shared by all kinds."""
        wall_s = max(time.monotonic() - self._started, 1e-9)
        memory = proportional_memory_bytes("self")
        rows = []
        for turn in self._roles:
            shares = turn.clock.shares()
            busy_s = sum(shares.values()) - shares["waiting"]
            rows.append((turn.id.kind, {"cpu_share": busy_s / wall_s, "bytes_sent": float(turn.clock.bytes_sent)}))
        table = by_kind(rows)
        for row in table.values():
            row["memory_bytes"] = float(memory)
        return table

    def time_shares(self) -> dict[str, dict[str, float]]:
        """Seconds per phase, summed over the roles of each kind."""
        return by_kind([(turn.id.kind, turn.clock.shares()) for turn in self._roles])

    def counted(self, kind: str) -> int:
        """Environment steps counted by the roles of this kind."""
        return sum(turn.clock.counted for turn in self._roles if turn.id.kind == kind)

    def close(self) -> None:
        """Close every role's generator, so that its ``finally`` blocks run."""
        for turn in self._roles:
            turn.generator.close()
            turn.ended = True

    def __enter__(self) -> InlineCluster:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _shared_endpoints(plan: Plan) -> dict[str, ChannelSlots | BoardValues | Meeting]:
    return {
        **{spec.name: ChannelSlots(spec) for spec in plan.channels},
        **{spec.name: BoardValues(spec) for spec in plan.boards},
        **{spec.name: Meeting(spec) for spec in plan.groups},
    }
