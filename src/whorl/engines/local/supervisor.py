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
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from whorl.config.schema import EngineConfig
from whorl.engines.contract import SUPERVISOR, Message, Observer, Plan, RoleId
from whorl.engines.entries import module_of
from whorl.engines.local.hosted import Hosted, Process, final_error
from whorl.engines.local.line import FrameSocket
from whorl.engines.local.memory import create_segment, map_segment
from whorl.engines.local.restarts import RestartBudget
from whorl.engines.local.spawner import NurseryLostError, Spawner
from whorl.engines.local.status import PAGE_BYTES, StatusPage
from whorl.engines.local.wiring import Wiring
from whorl.engines.usage import by_kind
from whorl.engines.wire import Envelope, decode_body, encode_body, encode_frame, envelope
from whorl.errors import RoleLostError, WhorlError

_LOOK_EVERY_S = 0.2
_TERM_S = 2.0
_KILL_S = 2.0
_LIGHT_START_S = 120.0
_TORCH_START_S = 600.0
_MAX_UNREAD_BYTES = 2**30
_NURSERY = RoleId("nursery", 0)

_log = logging.getLogger("whorl.engines")


class LocalCluster:
    """The running processes of a plan."""

    def __init__(self, plan: Plan, observer: Observer, config: EngineConfig, torch_threads: int) -> None:
        self._plan = plan
        self._observer = observer
        self._config = config
        self._torch_threads = torch_threads
        self._started = time.monotonic()
        self._inbox: deque[Message] = deque()
        self._budget = RestartBudget(config.max_restarts, config.max_restarts_without_progress)
        self._restarts: Counter[str] = Counter({spec.id.kind: 0 for spec in plan.roles})
        self._error: WhorlError | None = None
        self._closed = False
        self._epoll = select.epoll()
        self._roles: dict[RoleId, Hosted] = {}
        self._wiring = Wiring(plan)
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._by_descriptor: dict[int, Hosted] = {}
        self._spawner = Spawner(sorted({module_of(spec.entry) for spec in plan.roles if not spec.torch}))
        try:
            self._epoll.register(self._wake_read, select.EPOLLIN)
            self._epoll.register(self._spawner.fileno(), select.EPOLLIN)
            log_folder = plan.job.get("log_dir") or ""
            if log_folder:
                os.makedirs(log_folder, exist_ok=True)  # noqa: PTH103
            self._wiring.build()
            for spec in plan.roles:
                descriptor = create_segment(f"status-{spec.id}", PAGE_BYTES)
                log_path = os.path.join(log_folder, f"{spec.id}.log") if log_folder else ""  # noqa: PTH118
                page = StatusPage(map_segment(descriptor))
                self._roles[spec.id] = Hosted(spec, descriptor, page, log_path)
            for hosted in self._roles.values():
                self._start(hosted)
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
        """Deliver to the running incarnation; to none when there is none: the next would not understand it."""
        process = target.process
        if process is None:
            return
        process.frames.send(encode_frame(head, body))
        self._watch_writing(process)
        if process.frames.outgoing_bytes > _MAX_UNREAD_BYTES:
            process.condemn("does not read its messages")

    def _watch_writing(self, process: Process) -> None:
        if not process.hung_up_at:
            events = select.EPOLLIN | (select.EPOLLOUT if process.frames.outgoing_bytes else 0)
            self._epoll.modify(process.frames.fileno(), events)

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
                if head.kind == "metrics" and hosted.id.kind == "learner":
                    self._budget.progress()
                self._inbox.append(Message(hosted.id, head.kind, decode_body(body)))
            elif head.to_id in self._roles:
                self._pass_on(self._roles[head.to_id], head, body)
            else:
                self._fail(WhorlError(f"{hosted.id} sent {head.kind!r} to {head.to_id}, which the plan does not have"))
        return bool(frames)

    def _on_control(self, process: Process, kind: str, body: bytes) -> None:
        if kind == "ended":
            process.said_ended = True
        elif kind == "failed":
            process.failure = decode_body(body)
        elif kind == "pong":
            process.ping = None
        elif kind == "overdue":
            now = time.monotonic()
            for peer in decode_body(body)["peers"]:
                hosted = self._roles.get(RoleId(*peer))
                if hosted is not None and hosted.overdue(now):
                    self._pass_on(hosted, envelope(SUPERVISOR, hosted.id, "ping", control=True), encode_body(None))

    # The loop

    def run(self, until: Callable[[], bool], timeout_s: float | None = None) -> None:
        """Supervise until the condition holds, all roles ended, or the time is over."""
        end = time.monotonic() + timeout_s if timeout_s is not None else float("inf")
        with self._woken_by_signals():
            while True:
                while self._inbox:
                    self._observer.on_message(self._inbox.popleft())
                    if until():
                        return
                if self._error is not None:
                    raise self._error
                now = time.monotonic()
                if until() or now >= end or all(hosted.ended for hosted in self._roles.values()):
                    return
                self._look(min(_LOOK_EVERY_S, end - now))

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
        for descriptor, events in self._epoll.poll(timeout_s):
            hosted = self._by_descriptor.get(descriptor)
            if descriptor == self._wake_read:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake_read, 4096)
            elif descriptor == self._spawner.fileno():
                self._spawner.pump()
            elif hosted is not None and hosted.process is not None:
                if descriptor == hosted.process.pidfd:
                    dead.append(hosted)
                else:
                    self._tend_line(hosted, hosted.process, events)
        for hosted in dead:
            if hosted.process is not None:  # restarting everybody may have buried it meanwhile
                self._bury(hosted, hosted.process)
        if self._spawner.lost:
            self._replace_nursery()
        self._judge_and_start()

    def _tend_line(self, hosted: Hosted, process: Process, events: int) -> None:
        if events & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
            self._take_frames(hosted, process)
        if events & select.EPOLLOUT:
            process.frames.flush()
        if process.frames.hung_up:
            process.hung_up_at = time.monotonic()
            self._forget(process.frames.fileno())
        else:
            self._watch_writing(process)

    def _judge_and_start(self) -> None:
        now = time.monotonic()
        for hosted in self._roles.values():
            if hosted.process is not None:
                verdict = hosted.verdict(now, self._config.response_s)
                if verdict:
                    hosted.process.condemn(verdict)
            elif hosted.start_at is not None and now >= hosted.start_at and self._error is None:
                try:
                    self._start(hosted)
                except NurseryLostError:
                    self._replace_nursery()
                    return

    # Birth and death

    def _start(self, hosted: Hosted) -> None:
        """Start the next incarnation and tell who wants to know."""
        spec = hosted.spec
        endpoints, descriptors = self._wiring.grant(spec, first=0)
        threads = str(self._torch_threads if spec.torch else 1)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        hosted.page.start_afresh()
        with theirs:
            request = {
                "role": [spec.id.kind, spec.id.index],
                "incarnation": hosted.incarnation,
                "entry": spec.entry,
                "endpoints": endpoints,
                "job": self._plan.job,
                "patience_s": self._config.patience_s,
                "start_deadline_s": _TORCH_START_S if spec.torch else _LIGHT_START_S,
                "log_path": hosted.log_path,
                "environ": {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads},
            }
            try:
                pid, pidfd = self._spawner.spawn(request, [theirs.fileno(), hosted.status_descriptor, *descriptors])
            except BaseException:
                ours.close()
                raise
        hosted.process = Process(pid, pidfd, FrameSocket(ours))
        hosted.start_at = None
        for descriptor in (pidfd, ours.fileno()):
            self._by_descriptor[descriptor] = hosted
            self._epoll.register(descriptor, select.EPOLLIN)
        if hosted.loss is not None:
            loss, hosted.loss = hosted.loss, None
            self._observer.on_restart(spec.id, hosted.incarnation, loss["cause"])
            for role in spec.notify:
                self._pass_on(self._roles[role], envelope(SUPERVISOR, role, "lost"), encode_body(loss))

    def _forget(self, descriptor: int) -> None:
        if self._by_descriptor.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    def _remove(self, hosted: Hosted, process: Process) -> str:
        """Take a dead process off the books; returns why it is dead."""
        end = self._spawner.exit_of(process.pid, timeout_s=1.0)
        cause = hosted.cause_of(process, end)
        hosted.past_cpu_s += end.cpu_s if end is not None else 0.0
        hosted.past_counted += hosted.page.counted
        hosted.ended = process.said_ended and end is not None and end.status == 0
        self._forget(process.frames.fileno())
        self._forget(process.pidfd)
        process.close()
        hosted.process = None
        return cause

    def _bury(self, hosted: Hosted, process: Process) -> None:
        """A process died: its last messages, then what to do about it."""
        while self._take_frames(hosted, process):
            pass
        cause = self._remove(hosted, process)
        if hosted.ended:
            return
        if process.failure is not None and process.failure["final"]:
            self._fail(final_error(process.failure))
            return
        try:
            delay_s = self._budget.spend(hosted.id, time.monotonic() - process.started, cause)
        except RoleLostError as error:
            self._fail(RoleLostError(f"{error}; see {hosted.log_path}" if hosted.log_path else str(error)))
            return
        where = max(hosted.page.progress().where, 0)
        _log.warning("%s (incarnation %d) was lost: %s", hosted.id, hosted.incarnation, cause)
        self._restarts[hosted.id.kind] += 1
        hosted.loss = {"kind": hosted.id.kind, "index": hosted.id.index, "where": where, "cause": cause}
        hosted.loss["counted"] = hosted.page.counted
        if hosted.spec.on_loss == "restart_all":
            self._restart_all(delay_s)
        else:
            self._schedule(hosted, delay_s)

    def _schedule(self, hosted: Hosted, delay_s: float) -> None:
        hosted.incarnation += 1
        hosted.ended = False
        hosted.start_at = time.monotonic() + delay_s
        if hosted.loss is not None:
            hosted.loss["incarnation"] = hosted.incarnation

    def _restart_all(self, delay_s: float) -> None:
        """Kill everybody, make every endpoint afresh, start everybody again."""
        self._end_processes(term_s=0.0)
        self._wiring.close()
        self._wiring.build()
        for hosted in self._roles.values():
            self._schedule(hosted, delay_s)

    def _replace_nursery(self) -> None:
        """Roles die with their nursery, so this is a restart of everything."""
        cause = "the nursery died, and every role with it"
        try:
            delay_s = self._budget.spend(_NURSERY, time.monotonic() - self._started, cause)
        except RoleLostError as error:
            self._fail(error)
            return
        self._restarts[_NURSERY.kind] += 1
        self._epoll.unregister(self._spawner.fileno())
        self._spawner.close()
        self._restart_all(delay_s)
        self._spawner.start()
        self._epoll.register(self._spawner.fileno(), select.EPOLLIN)
        self._observer.on_restart(_NURSERY, self._restarts[_NURSERY.kind], cause)

    def _fail(self, error: WhorlError) -> None:
        """The run cannot go on; ``run`` raises this once the messages sent before are delivered."""
        self._error = self._error or error

    def _end_processes(self, term_s: float) -> None:
        """End every role: TERM and a while, KILL and a while, then give up naming the pid."""
        living = {hosted.id: hosted for hosted in self._roles.values() if hosted.process is not None}
        stages = ((signal.SIGTERM, term_s), (signal.SIGKILL, _KILL_S)) if term_s else ((signal.SIGKILL, 2 * _KILL_S),)
        for number, patience_s in stages:
            for hosted in living.values():
                assert hosted.process is not None
                hosted.process.signal(number)
                hosted.process.signal(signal.SIGCONT)  # a stopped process cannot obey
            end = time.monotonic() + patience_s
            while living and (left_s := end - time.monotonic()) > 0:
                gone = [hosted for hosted in living.values() if hosted.process and _has_exited(hosted.process)]
                for hosted in gone:
                    assert hosted.process is not None
                    self._remove(hosted, hosted.process)
                    del living[hosted.id]
                if living and not gone:
                    poller = select.poll()
                    for hosted in living.values():
                        if hosted.process is not None:
                            poller.register(hosted.process.pidfd, select.POLLIN)
                    poller.poll(left_s * 1000)
        for hosted in living.values():
            if hosted.process is not None:
                _log.error("%s (pid %d) does not end, not even by SIGKILL; giving up", hosted.id, hosted.process.pid)
                self._forget(hosted.process.frames.fileno())
                self._forget(hosted.process.pidfd)
                hosted.process.close()
                hosted.process = None

    # Reports

    @property
    def restarts(self) -> dict[str, int]:
        """Restarts per kind of role."""
        return dict(self._restarts)

    def resources(self) -> dict[str, dict[str, float]]:
        """Per kind, summed over its roles: cores used since the launch, proportional memory, bytes sent."""
        wall_s = max(time.monotonic() - self._started, 1e-9)
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

    # The end

    def close(self) -> None:
        """End every process and give back every descriptor, in bounded time. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        for hosted in self._roles.values():
            if hosted.process is not None:
                self._forget(hosted.process.frames.fileno())
                hosted.process.frames.close()  # from now on SIGTERM counts
        self._end_processes(term_s=_TERM_S)
        self._spawner.close()
        self._wiring.close()
        for hosted in self._roles.values():
            os.close(hosted.status_descriptor)
        for descriptor in (self._wake_read, self._wake_write):
            os.close(descriptor)
        self._epoll.close()

    def __enter__(self) -> LocalCluster:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _has_exited(process: Process) -> bool:
    poller = select.poll()
    poller.register(process.pidfd, select.POLLIN)
    return bool(poller.poll(0))
