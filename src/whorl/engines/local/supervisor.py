"""One supervisor owns every process: it passes messages on, notices deaths and hangs, replaces, and ends them all.

Deaths are noticed by pidfd and not by polling. Hangs are judged by status pages (an entry past its deadline) and, when
somebody waits long for a role, by a ping. Signals are the driver's: here they only cut a sleep short.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from whorl.config.schema import EngineConfig
from whorl.engines.contract import JOINED, SUPERVISOR, Message, Observer, Plan, RoleId
from whorl.engines.local.fleet import Fleet
from whorl.engines.local.hosted import Hosted, Process, final_error
from whorl.engines.local.restarts import RestartBudget
from whorl.engines.local.spawner import NurseryLostError
from whorl.engines.usage import by_kind
from whorl.engines.wire import Envelope, decode_body, encode_body, encode_frame, envelope
from whorl.errors import RoleLostError, WhorlError

_LOOK_EVERY_S = 0.2
_JUDGE_EVERY_S = 0.15
_MAX_UNREAD_BYTES = 2**30
_NURSERY = RoleId("nursery", 0)

_log = logging.getLogger("whorl.engines")


class LocalCluster:
    """The running processes of a plan."""

    def __init__(self, plan: Plan, observer: Observer, config: EngineConfig, torch_threads: int) -> None:
        self._observer = observer
        self._response_s = config.response_s
        self._started = time.monotonic()
        self._closed_after_s: float | None = None
        self._judge_at = 0.0
        self._inbox: deque[Message] = deque()
        restarting_all = frozenset(spec.id for spec in plan.roles if spec.on_loss == "restart_all")
        self._budget = RestartBudget(config.max_restarts, config.max_restarts_without_progress, restarting_all)
        self._carriers = plan.carriers
        self._restarts: Counter[str] = Counter({spec.id.kind: 0 for spec in plan.roles})
        self._error: WhorlError | None = None
        self._fleet = Fleet(plan, config, torch_threads)
        self._roles = self._fleet.roles
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._fleet.epoll.register(self._wake_read, select.EPOLLIN)
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

    # Messages

    def send(self, to: RoleId, kind: str, body: Mapping[str, Any] | None = None) -> None:
        """A message of the driver to a role."""
        if to not in self._roles:
            raise ValueError(f"{kind!r} was sent to {to}, which the plan does not have")
        self._pass_on(self._roles[to], envelope(SUPERVISOR, to, kind), encode_body(body))

    def _pass_on(self, target: Hosted, head: Envelope, body: bytes) -> None:
        """Deliver to the running incarnation. When there is none, drop it: the next would not know what it is about."""
        process = target.process
        if process is None:
            return
        process.frames.send(encode_frame(head, body))
        self._fleet.watch_line(process)
        if process.frames.outgoing_bytes > _MAX_UNREAD_BYTES:
            process.condemn("does not read its messages")

    def _take_frames(self, hosted: Hosted, process: Process) -> bool:
        """See to what a role has sent; False when there was nothing."""
        try:
            frames = process.frames.receive()
        except ValueError as error:
            process.condemn(f"broke its line ({error})")
            frames = []
        for head, body in frames:
            if head.control:
                self._on_control(process, head.kind, body)
            elif head.to_id == SUPERVISOR:
                message = Message(hosted.id, head.kind, decode_body(body))
                if head.kind == "metrics" and hosted.id.kind == "learner":
                    self._on_progress(message.body["update"])
                if head.kind == "recovered":
                    self._budget.recovered(RoleId(message.body["kind"], message.body["index"]))
                self._inbox.append(message)
            elif head.to_id in self._roles:
                self._pass_on(self._roles[head.to_id], head, body)
            else:
                self._fail(WhorlError(f"{hosted.id} sent {head.kind!r} to {head.to_id}, which the plan does not have"))
        return bool(frames)

    def _on_progress(self, update: int) -> None:
        """There was an update; one that is new makes up for old deaths."""
        if self._budget.progress(update):
            for hosted in self._roles.values():
                hosted.deaths.clear()

    def _on_control(self, process: Process, kind: str, body: bytes) -> None:
        if kind == "ended":
            process.said_ended = True
        elif kind == "failed":
            process.failure = decode_body(body)
        elif kind == "pong":
            process.ping, process.answered_at = None, time.monotonic()
        elif kind == "overdue":
            now = time.monotonic()
            for peer in decode_body(body)["peers"]:
                hosted = self._roles.get(RoleId(*peer))
                if hosted is not None and hosted.overdue(now):
                    self._pass_on(hosted, envelope(SUPERVISOR, hosted.id, "ping", control=True), encode_body(None))

    # The loop

    def run(self, until: Callable[[], bool], timeout_s: float | None = None) -> None:
        """Supervise until the condition holds, the roles that carry the plan ended, or the time is over."""
        end = time.monotonic() + timeout_s if timeout_s is not None else float("inf")
        with self._woken_by_signals(), self._at_work():
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
        """Roles are patient while the driver is away: in the user's own loop, between two calls."""
        for hosted in self._roles.values():
            hosted.page.supervise(True)
        try:
            yield
        finally:
            for hosted in self._roles.values():
                hosted.page.supervise(False)

    @contextlib.contextmanager
    def _woken_by_signals(self) -> Iterator[None]:
        """A signal with a Python handler also ends the current sleep, unless somebody else has a wake-up descriptor."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        previous = signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        if previous != -1:
            signal.set_wakeup_fd(previous)
        try:
            yield
        finally:
            if previous == -1:
                signal.set_wakeup_fd(-1)

    def _look(self, timeout_s: float) -> None:
        """Sleep until something happens, then see to it."""
        starts = [hosted.start_at for hosted in self._roles.values() if hosted.start_at is not None]
        if starts:
            timeout_s = max(0.0, min(timeout_s, min(starts) - time.monotonic()))
        dead: list[Hosted] = []
        for descriptor, events in self._fleet.epoll.poll(timeout_s):
            hosted = self._fleet.role_of(descriptor)
            if descriptor == self._wake_read:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake_read, 4096)
            elif descriptor == self._fleet.spawner.fileno():
                self._fleet.spawner.pump()
            elif hosted is not None and hosted.process is not None:
                if descriptor == hosted.process.pidfd:
                    dead.append(hosted)
                else:
                    self._tend_line(hosted, hosted.process, events)
        if dead:
            self._fleet.spawner.pump()  # a nursery's end comes before that of the roles that die with it
        if self._fleet.spawner.lost:
            self._replace_nursery()
        for hosted in dead:
            if hosted.process is not None:  # restarting everybody may have buried it meanwhile
                self._bury(hosted, hosted.process)
        self._start_due()
        self._judge()

    def _tend_line(self, hosted: Hosted, process: Process, events: int) -> None:
        if events & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
            self._take_frames(hosted, process)
        if events & select.EPOLLOUT:
            process.frames.flush()
        if process.frames.hung_up:
            process.hung_up_at = time.monotonic()
            self._fleet.forget(process.frames.fileno())
        else:
            self._fleet.watch_line(process)

    def _judge(self) -> None:
        """Kill who is past a deadline or silent; not after every message, which would cost more than the messages."""
        now = time.monotonic()
        if now < self._judge_at:
            return
        self._judge_at = now + _JUDGE_EVERY_S
        for hosted in self._roles.values():
            if hosted.process is not None:
                verdict = hosted.verdict(now, self._response_s)
                if verdict:
                    hosted.process.condemn(verdict)

    def _start_due(self) -> None:
        now = time.monotonic()
        for hosted in self._roles.values():
            if hosted.start_at is None or now < hosted.start_at or self._error is not None:
                continue
            if hosted.parked and not hosted.joins and not self._is_needed(hosted):
                self._let_rest(hosted)  # who needed it has ended meanwhile
                continue
            try:
                self._fleet.start(hosted)
            except NurseryLostError:
                self._replace_nursery()
                return
            self._tell_of_loss(hosted)

    # Coming and going

    def park(self, roles: Iterable[RoleId]) -> None:
        """Leave these as they are once they have ended."""
        leaving = [self._roles[role] for role in roles]
        for hosted in leaving:
            hosted.parked, hosted.joins = True, False
        for hosted in leaving:
            if hosted.start_at is not None and not self._is_needed(hosted):
                self._let_rest(hosted)

    def start(self, roles: Iterable[RoleId]) -> None:
        """Start parked roles, or have them start when they have ended."""
        for hosted in map(self._roles.__getitem__, roles):
            if hosted.process is not None or hosted.start_at is not None:
                hosted.joins = hosted.parked
            elif hosted.parked:
                self._join(hosted)

    def _is_needed(self, hosted: Hosted) -> bool:
        """A role that leaves has not ended yet, and goes on with this one until then: an actor with its
        environments."""
        told = (self._roles[role] for role in hosted.spec.notify)
        return any(other.parked and other.process is not None for other in told)

    def _let_rest(self, hosted: Hosted) -> None:
        """Lost while it left: there is to be none in its place."""
        self._tell_of_loss(hosted)
        hosted.rest()

    def _join(self, hosted: Hosted) -> None:
        hosted.parked = hosted.joins = False
        hosted.note_loss(JOINED)
        hosted.schedule(0.0)

    # Losses

    def _bury(self, hosted: Hosted, process: Process) -> None:
        """A process died: its last messages, then what to do about it."""
        while self._take_frames(hosted, process):
            pass
        cause = self._fleet.remove(hosted, process)
        needed = not hosted.ended and self._is_needed(hosted)
        if hosted.joins and not needed:
            self._join(hosted)
            return
        if hosted.ended:
            return
        if hosted.parked and not needed:
            hosted.note_loss(cause)
            self._let_rest(hosted)
            return
        if process.failure is not None and process.failure["final"]:
            self._fail(final_error(process.failure))
            return
        try:
            delay_s = self._budget.spend(hosted.id, time.monotonic() - process.started, cause)
        except RoleLostError as error:
            self._fail(RoleLostError(f"{error}; see {hosted.log_path}" if hosted.log_path else str(error)))
            return
        _log.info("%s (incarnation %d) was lost: %s", hosted.id, hosted.incarnation, cause)
        self._restarts[hosted.id.kind] += 1
        progress = hosted.page.progress()
        hosted.note_loss(cause, progress.phase, progress.where)
        if progress.phase == "environment":
            hosted.deaths[progress.where] += 1
        if hosted.spec.on_loss == "restart_all":
            self._restart_all(delay_s)
        else:
            hosted.schedule(delay_s)

    def _tell_of_loss(self, hosted: Hosted) -> None:
        """The replacement runs (or there is to be none): tell the observer and the roles that want to know."""
        if hosted.loss is None:
            return
        incarnation = hosted.incarnation + (hosted.process is None)
        loss, hosted.loss = {**hosted.loss, "incarnation": incarnation}, None
        if loss["cause"] != JOINED:
            self._observer.on_restart(hosted.id, incarnation, loss["cause"])
        for role in hosted.spec.notify:
            self._pass_on(self._roles[role], envelope(SUPERVISOR, role, "lost"), encode_body(loss))

    def _restart_all(self, delay_s: float) -> None:
        """Kill everybody, make every endpoint afresh, start everybody again."""
        self._fleet.end_processes(term_s=0.0)
        self._fleet.renew_endpoints()
        for hosted in self._roles.values():
            if hosted.spec.on_loss == "replace":
                hosted.loss = None  # who would be told of it begins anew as well
            if hosted.parked and not hosted.joins:
                hosted.rest()
            else:
                hosted.parked = hosted.joins = False
                hosted.schedule(delay_s)

    def _replace_nursery(self) -> None:
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

    def _fail(self, error: WhorlError) -> None:
        """The run cannot go on; ``run`` raises this once the messages sent before are delivered."""
        self._error = self._error or error

    # Reports

    @property
    def restarts(self) -> dict[str, int]:
        """Restarts per kind of role."""
        return dict(self._restarts)

    def resources(self) -> dict[str, dict[str, float]]:
        """Per kind, summed over its roles: cores used since the launch, proportional memory, bytes sent."""
        wall_s = self._closed_after_s or max(time.monotonic() - self._started, 1e-9)
        table = by_kind([(hosted.id.kind, hosted.usage()) for hosted in self._roles.values()])
        for row in table.values():
            row["cpu_share"] = row.pop("cpu_s") / wall_s
        return table

    def time_shares(self) -> dict[str, dict[str, float]]:
        """Seconds per phase, summed over the roles of each kind."""
        return by_kind(
            [(hosted.id.kind, hosted.page.shares(hosted.process is not None)) for hosted in self._roles.values()]
        )

    def counted(self, kind: str) -> int:
        """Environment steps counted by the roles of this kind, lost ones included."""
        return sum(hosted.counted for hosted in self._roles.values() if hosted.id.kind == kind)

    @property
    def pids(self) -> dict[RoleId, int]:
        """The running processes."""
        return {hosted.id: hosted.process.pid for hosted in self._roles.values() if hosted.process is not None}

    @property
    def nursery_pid(self) -> int:
        """The process that starts the others."""
        return self._fleet.spawner.pid

    def close(self) -> None:
        """End every process, in bounded time. A second call does nothing; the reports stay."""
        if self._closed_after_s is not None:
            return
        self._closed_after_s = time.monotonic() - self._started
        self._fleet.close()
        for descriptor in (self._wake_read, self._wake_write):
            os.close(descriptor)

    def __enter__(self) -> LocalCluster:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
