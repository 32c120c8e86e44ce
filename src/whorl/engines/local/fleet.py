"""The processes of a plan and all that is made for them: nursery, endpoints, status pages, descriptors to watch.

Mechanics only: whether and when a process is started or ended is the supervisor's to say.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import time

from whorl.config.schema import EngineConfig
from whorl.engines.contract import Plan, RoleId
from whorl.engines.entries import module_of
from whorl.engines.local.hosted import Hosted, Process
from whorl.engines.local.limits import out_of_memory_kills
from whorl.engines.local.line import FrameSocket
from whorl.engines.local.memory import create_segment, map_segment
from whorl.engines.local.spawner import Spawner
from whorl.engines.local.status import PAGE_BYTES, StatusPage
from whorl.engines.local.wiring import Wiring
from whorl.engines.members import log_paths
from whorl.engines.threads import is_crowded, thread_environ

TERM_S = 2.0
KILL_S = 2.0
_LIGHT_START_S = 120.0
_TORCH_START_S = 600.0

_log = logging.getLogger("whorl.engines")


class Fleet:
    """Starts, watches and ends processes."""

    def __init__(self, plan: Plan, config: EngineConfig, torch_threads: int) -> None:
        self._plan = plan
        self._config = config
        self._torch_threads = torch_threads
        self.wiring = Wiring(plan)
        self._by_descriptor: dict[int, Hosted] = {}
        self._closed = False
        self._memory_kills = out_of_memory_kills()
        self.roles: dict[RoleId, Hosted] = {}
        self.epoll = select.epoll()
        self.spawner = Spawner(sorted({module_of(spec.entry) for spec in plan.roles if not spec.torch}))
        try:
            self.epoll.register(self.spawner.fileno(), select.EPOLLIN)
            self.wiring.build()
            self._make_roles()
        except BaseException:
            self.close()
            raise

    def _make_roles(self) -> None:
        paths = log_paths(self._plan)
        for spec in self._plan.roles:
            descriptor = create_segment(f"status-{spec.id}", PAGE_BYTES)
            self.roles[spec.id] = Hosted(spec, paths[spec.id], StatusPage(map_segment(descriptor)), descriptor)

    def start(self, hosted: Hosted) -> None:
        """Start a role's process. ``NurseryLostError`` when there is nobody to start it."""
        spec = hosted.spec
        endpoints, descriptors = self.wiring.grant(spec)
        threads = self._torch_threads if spec.torch else 1
        request = {
            "role": [spec.id.kind, spec.id.index],
            "incarnation": hosted.incarnation,
            "deaths": [[where, times] for where, times in hosted.deaths.items()],
            "entry": spec.entry,
            "endpoints": endpoints,
            "job": self._plan.job,
            "patience_s": self._config.patience_s,
            "start_deadline_s": _TORCH_START_S if spec.torch else _LIGHT_START_S,
            "log_path": hosted.log_path,
            "environ": thread_environ(threads, is_crowded(self._plan, self._torch_threads)),
        }
        hosted.page.start_afresh()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            try:
                pid, pidfd = self.spawner.spawn(request, [theirs.fileno(), hosted.status_descriptor, *descriptors])
            except BaseException:
                ours.close()
                raise
        hosted.process = Process(pid, pidfd, FrameSocket(ours))
        hosted.start_at = None
        for descriptor in (pidfd, ours.fileno()):
            self._by_descriptor[descriptor] = hosted
            self.epoll.register(descriptor, select.EPOLLIN)

    def role_of(self, descriptor: int) -> Hosted | None:
        """Whose line or pidfd this is."""
        return self._by_descriptor.get(descriptor)

    def watch_line(self, process: Process) -> None:
        """Watch a line for what comes and, when something waits to be sent, for room."""
        if not process.hung_up_at:
            events = select.EPOLLIN | (select.EPOLLOUT if process.frames.outgoing_bytes else 0)
            self.epoll.modify(process.frames.fileno(), events)

    def forget(self, descriptor: int) -> None:
        """Watch a descriptor no longer."""
        if self._by_descriptor.pop(descriptor, None) is not None:
            self.epoll.unregister(descriptor)

    def remove(self, hosted: Hosted, process: Process) -> str:
        """Take a dead process off the books; returns why it is dead."""
        end = self.spawner.exit_of(process.pid, timeout_s=1.0)
        hosted.past_cpu_s += end.cpu_s if end is not None else 0.0
        hosted.past_counted += hosted.page.counted
        hosted.ended = process.said_ended and end is not None and end.status == 0
        self._drop(hosted, process)
        kills, self._memory_kills = self._memory_kills, out_of_memory_kills()
        shortage = ", as the kernel does when memory runs out" if self._memory_kills > kills else ""
        return hosted.cause_of(process, end) + (shortage if end is not None and end.status == signal.SIGKILL else "")

    def _drop(self, hosted: Hosted, process: Process) -> None:
        self.forget(process.frames.fileno())
        self.forget(process.pidfd)
        process.close()
        hosted.process = None

    def end_processes(self, term_s: float) -> None:
        """End every role: TERM and a while, KILL and a while, then give up naming the pid."""
        living = [(hosted, hosted.process) for hosted in self.roles.values() if hosted.process is not None]
        stages = [(signal.SIGTERM, term_s), (signal.SIGKILL, KILL_S)] if term_s else [(signal.SIGKILL, 2 * KILL_S)]
        for number, patience_s in stages:
            for _, process in living:
                process.signal(number)
                process.signal(signal.SIGCONT)  # a stopped process cannot obey
            end = time.monotonic() + patience_s
            while living and (left_s := end - time.monotonic()) > 0:
                exited = _wait_for_exits([process.pidfd for _, process in living], left_s)
                for hosted, process in living:
                    if process.pidfd in exited:
                        self.remove(hosted, process)
                living = [pair for pair in living if pair[0].process is not None]
        for hosted, process in living:
            _log.error("%s (pid %d) does not end, not even by SIGKILL; giving up", hosted.id, process.pid)
            self._drop(hosted, process)

    def renew_endpoints(self) -> None:
        """Every channel, board and group afresh; nobody may be running."""
        self.wiring.close()
        self.wiring.build()

    def renew_nursery(self) -> None:
        """A new nursery in place of a dead one."""
        self.epoll.unregister(self.spawner.fileno())
        self.spawner.close()
        self.spawner.start()
        self.epoll.register(self.spawner.fileno(), select.EPOLLIN)

    def close(self) -> None:
        """End every process and give back every descriptor, in bounded time. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        for hosted in self.roles.values():
            if hosted.process is not None:
                self.forget(hosted.process.frames.fileno())
                hosted.process.frames.close()  # hung up: from now on SIGTERM counts
        self.end_processes(term_s=TERM_S)
        self.spawner.close()
        self.wiring.close()
        for hosted in self.roles.values():
            hosted.page.keep_a_copy()
            os.close(hosted.status_descriptor)
        self.epoll.close()


def _wait_for_exits(pidfds: list[int], timeout_s: float) -> set[int]:
    """Those whose process has exited, as soon as there is one."""
    poller = select.poll()
    for pidfd in pidfds:
        poller.register(pidfd, select.POLLIN)
    return {pidfd for pidfd, _ in poller.poll(timeout_s * 1000)}
