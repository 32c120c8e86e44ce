"""Watching a fleet: lines are read, deaths noticed by pidfd, hangs judged by status pages and by pings.

What is to be done about it is for whoever watches to say: the supervisor of the local engine, or a station of another
one.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from typing import Protocol

from whorl.engines.contract import SUPERVISOR, RoleId
from whorl.engines.local.fleet import Fleet
from whorl.engines.local.hosted import Hosted, Process
from whorl.engines.members import Departure
from whorl.engines.wire import Envelope, decode_body, encode_body, encode_frame, envelope

_JUDGE_EVERY_S = 0.15
_MAX_UNREAD_BYTES = 2**30


class Watcher(Protocol):
    """Whoever watches."""

    def on_frame(self, hosted: Hosted, head: Envelope, body: bytes, /) -> None:
        """A role's message."""
        ...

    def on_overdue(self, peers: list[RoleId]) -> None:
        """Somebody waits long for these."""
        ...

    def on_departure(self, hosted: Hosted, departure: Departure) -> None:
        """An incarnation is gone; ``hosted.ended`` says whether it had come to its end."""
        ...

    def on_nursery_lost(self) -> None:
        """The nursery died, and every role with it."""
        ...


class Watch:
    """Looks after the processes of a fleet."""

    def __init__(self, fleet: Fleet, watcher: Watcher, response_s: float) -> None:
        self._fleet = fleet
        self._watcher = watcher
        self._response_s = response_s
        self._judge_at = 0.0
        self._others: dict[int, Callable[[], None]] = {}

    def also(self, descriptor: int, on_readable: Callable[[], None]) -> None:
        """Watch one more descriptor."""
        self._others[descriptor] = on_readable
        self._fleet.epoll.register(descriptor, select.EPOLLIN)

    def deliver(self, target: Hosted, head: Envelope, body: bytes) -> None:
        """To the running incarnation; dropped when there is none."""
        process = target.process
        if process is None:
            return
        process.frames.send(encode_frame(head, body))
        self._fleet.watch_line(process)
        if process.frames.outgoing_bytes > _MAX_UNREAD_BYTES:
            process.condemn("does not read its messages")

    def look(self, timeout_s: float) -> None:
        """Sleep until something happens, then see to it."""
        dead: list[Hosted] = []
        for descriptor, events in self._fleet.epoll.poll(timeout_s):
            hosted = self._fleet.role_of(descriptor)
            if descriptor in self._others:
                self._others[descriptor]()
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
            self._watcher.on_nursery_lost()
        for hosted in dead:
            if hosted.process is not None:  # restarting everybody may have buried it meanwhile
                self._bury(hosted, hosted.process)

    def judge(self) -> None:
        """Kill who is past a deadline or silent; not after every message, which would cost more than the messages."""
        now = time.monotonic()
        if now < self._judge_at:
            return
        self._judge_at = now + _JUDGE_EVERY_S
        for hosted in self._fleet.roles.values():
            if hosted.process is not None:
                verdict = hosted.verdict(now, self._response_s)
                if verdict:
                    hosted.process.condemn(verdict)

    def ping(self, peer: RoleId) -> None:
        """Somebody waits long for this role: is it there?"""
        hosted = self._fleet.roles.get(peer)
        if hosted is not None and hosted.overdue(time.monotonic()):
            self.deliver(hosted, envelope(SUPERVISOR, hosted.id, "ping", control=True), encode_body(None))

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
            else:
                self._watcher.on_frame(hosted, head, body)
        return bool(frames)

    def _on_control(self, process: Process, kind: str, body: bytes) -> None:
        if kind == "ended":
            process.said_ended = True
        elif kind == "failed":
            process.failure = decode_body(body)
        elif kind == "pong":
            process.ping, process.answered_at = None, time.monotonic()
        elif kind == "overdue":
            self._watcher.on_overdue([RoleId(*peer) for peer in decode_body(body)["peers"]])

    def _bury(self, hosted: Hosted, process: Process) -> None:
        """A process died: its last messages, then what to do about it."""
        while self._take_frames(hosted, process):
            pass
        cause = self._fleet.remove(hosted, process)
        progress = hosted.page.progress()
        lived_s = time.monotonic() - process.started
        departure = Departure(cause, lived_s, process.failure, progress.phase, progress.where)
        self._watcher.on_departure(hosted, departure)
