"""The driver's side of a plan on MPI: passes messages on, notices deaths and hangs, and ends the job.

A job cannot lose a rank and live, so nobody is replaced: the first loss is named and ends the run, whose last
checkpoint is intact. With fault-tolerant MPI (``engine.ulfm``) the run goes on without an actor that was lost. Ranks of
the driver's own node are seen without asking them: by their pages and pidfds. Of ranks elsewhere the launcher tells,
and the expiry of waits.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from typing import Any

from whorl.config.schema import EngineConfig
from whorl.engines.contract import Message, Observer, Plan, RoleId
from whorl.engines.members import Departure, log_paths
from whorl.engines.mpi.causes import first_death
from whorl.engines.mpi.finding import START_S
from whorl.engines.mpi.pages import RankPage, create_pages, page_of
from whorl.engines.mpi.placing import Told, plan_table
from whorl.engines.mpi.seat import Seat
from whorl.engines.mpi.survivors import Survivors
from whorl.engines.mpi.world import World
from whorl.engines.paged import PagedSupervision
from whorl.engines.plain import plan_to_plain
from whorl.engines.threads import is_crowded
from whorl.engines.wire import Envelope, decode_body, encode_frame
from whorl.errors import BadInputError, RoleLostError, WhorlError

_JUDGE_EVERY_S = 0.15
_POLITE_S = 0.4
_TERM_S = 2.0
_REPORT_S = 1.0


class MpiCluster(PagedSupervision[Seat]):
    """The ranks at work on a plan."""

    def __init__(self, plan: Plan, observer: Observer, config: EngineConfig, torch_threads: int, world: World) -> None:
        super().__init__(plan, observer, config)
        self._plan, self._world = plan, world
        self._response_s = config.response_s
        self._survivors = Survivors(plan, self._roles) if config.ulfm else None
        self._judge_at = 0.0
        self._report_number = 0
        self._leaves_ranks = world.launcher is None
        """To whoever has started them, or to the next plan."""
        self._broken = False
        """A rank is gone or will not answer: nothing can be ended politely."""
        self._descriptor, self._pages = create_pages(world.size)
        paths = log_paths(plan)
        for rank, spec in enumerate(plan.roles):
            self._roles[spec.id] = Seat(spec, paths[spec.id], RankPage(page_of(self._pages, rank)), rank)
        self._pidfds: dict[int, Seat] = {}
        self._deaths = select.epoll()
        """Tells which of them died in the order of their deaths: a launcher kills the others within milliseconds."""
        try:
            self._begin(config, torch_threads)
        except BaseException:
            self._broken = True
            self.close()
            raise

    def _begin(self, config: EngineConfig, torch_threads: int) -> None:
        world = self._world
        if not world.nodes:
            world.nodes = {body["rank"]: body["node"] for body in world.meet("hello", START_S)}
        world.tell_all(
            "plan",
            {
                "plan": plan_to_plain(self._plan),
                "pages": f"/proc/{os.getpid()}/fd/{self._descriptor}",
                "node": world.nodes[0],
                "sys_path": [os.fsencode(str(path)) for path in sys.path],
                "log_dir": self._plan.job.get("log_dir") or "",
                "patience_s": config.patience_s,
                "one_sided": "never" if config.ulfm else config.one_sided,
                "ulfm": config.ulfm,
                "torch_threads": torch_threads,
                "crowded": is_crowded(self._plan, torch_threads, len(set(world.nodes.values()))),
            },
        )
        if config.ulfm and len(set(world.nodes.values())) > 1:
            raise BadInputError("engine.ulfm: the loss of ranks is survived on one machine; leave it out on several")
        told = Told.of(world.meet("ready", START_S))
        self.one_sided, self.slowest_get_s = told.one_sided, told.slowest_get_s
        for seat in self._roles.values():
            seat.node = world.nodes[seat.rank]
            if seat.page.pid:
                seat.pidfd = os.pidfd_open(seat.page.pid)
                self._pidfds[seat.pidfd] = seat
                self._deaths.register(seat.pidfd, select.EPOLLIN)
            if seat.spec.parked:
                seat.rest()
            else:
                seat.begin()
        self._observer.on_placed(list(plan_table(self._plan, self._roles.values(), world.size, told, config)))
        world.tell_all("go")

    # Messages

    def _deliver(self, target: Seat, head: Envelope, body: bytes) -> None:
        if target.running:
            self._world.frames.send(encode_frame(head, body))

    def _take_frames(self) -> None:
        for head, data in self._world.received():
            if not head.control:
                self._take_in(head.sender_id, head, data)
            elif head.sender_id in self._roles:
                self._on_control(self._roles[head.sender_id], head.kind, decode_body(data))

    def _on_control(self, seat: Seat, kind: str, body: dict[str, Any]) -> None:
        if "page" in body:
            seat.page.paste(body["page"])
            seat.reported = body.get("number", seat.reported)
        if kind == "ended":
            seat.leave()
            seat.ended = True
            self._on_departure(seat, seat.departure("ended"))
        elif kind == "failed":
            self._on_failed(seat, body)
        elif kind == "warned":
            os.kill(os.getpid(), signal.SIGTERM)

    def _on_failed(self, seat: Seat, failure: dict[str, Any]) -> None:
        if seat.running:
            seat.leave()
            self._on_departure(seat, seat.departure(str(failure["line"]), failure))

    def _on_departure(self, member: Seat, departure: Departure) -> None:
        final = departure.failure is not None and departure.failure["final"]
        if not member.ended and not final and self._survivors is not None and self._survivors.spare(member):
            self._go_on_without(member, departure)
        else:
            super()._on_departure(member, departure)

    def _go_on_without(self, member: Seat, departure: Departure) -> None:
        """Nobody takes its place: those who depend on it are told as of one that has left."""
        member.note_loss(departure.cause, departure.phase, departure.where)
        loss = {**(member.loss or {}), "incarnation": member.incarnation + 1}
        member.loss = None
        for role in member.spec.notify:
            self.send(role, "lost", loss)
        member.rest()
        assert self._survivors is not None
        text = f"{member.id} (rank {member.rank}) was lost: {departure.cause}"
        self._inbox.append(Message(member.id, "left", {"actors": self._survivors.left(member), "text": text}))

    # What supervision asks for

    @property
    def _elsewhere(self) -> list[Seat]:
        """At work on nodes other than the driver's, whose pages are copies."""
        return [seat for seat in self._roles.values() if seat.running and not seat.page.pid]

    def _say_at_work(self, at_work: bool) -> None:
        super()._say_at_work(at_work)
        if not self._world.is_over:
            for seat in self._elsewhere:
                self._world.send(seat.id, "at_work", {"at_work": at_work})

    def _ask_around(self, usage: bool) -> None:  # noqa: ARG002
        """Have ranks on other nodes send their pages; who is busy for longer than a moment is known by its last."""
        if self._closed_after_s is not None or self._broken or self._world.is_over:
            return
        self._report_number += 1
        for seat in self._elsewhere:
            self._world.send(seat.id, "report", {"number": self._report_number})
        end, others = time.monotonic() + _REPORT_S, []
        while any(seat.reported < self._report_number for seat in self._elsewhere):
            if time.monotonic() > end or self._world.is_over:
                break
            for head, data in self._world.receive(end - time.monotonic()):
                if head.control and head.kind == "page" and head.sender_id in self._roles:
                    self._on_control(self._roles[head.sender_id], head.kind, decode_body(data))
                else:
                    others.append((head, data))
        self._world.aside += others

    def _start(self, member: Seat) -> bool:
        member.page.start_afresh()
        member.begin()
        self._world.send(member.id, "start", {"incarnation": member.incarnation})
        return True

    def _beyond_replacing(self, member: Seat, departure: Departure) -> WhorlError:
        return self._lost(member, departure.cause)

    def _lost(self, seat: Seat, cause: str) -> RoleLostError:
        see = f"; see {seat.log_path}" if seat.log_path else ""
        return RoleLostError(
            f"{seat.id} (rank {seat.rank}) was lost: {cause}; an MPI job ends with it, and can be resumed from its "
            f"last checkpoint{see}"
        )

    def _end_and_renew(self) -> None:
        raise AssertionError("ranks cannot be started again")

    # The loop

    def _look(self, timeout_s: float) -> None:
        """Sleep until something happens, then see to it."""
        frames = self._world.frames
        poller = select.poll()
        poller.register(frames.fileno(), select.POLLIN | (select.POLLOUT if frames.outgoing_bytes else 0))
        poller.register(self._wake.fileno(), select.POLLIN)
        for descriptor in self._watched():
            poller.register(descriptor, select.POLLIN)
        poller.poll(0.0 if self._world.aside else self._until_next_start(timeout_s) * 1000)
        self._wake.drain()
        frames.flush()
        self._take_frames()
        gone = [self._pidfds[descriptor] for descriptor, _ in self._deaths.poll(0)]
        if (gone or self._world.is_over) and self._error is None:
            self._take_frames()
            if self._survivors is not None and gone and not self._world.is_over:
                self._bury_each(gone)
            else:
                self._bury(gone)
        self._start_due()
        self._judge()

    def _watched(self) -> list[int]:
        launcher = self._world.launcher
        return [self._deaths.fileno(), *([] if launcher is None or launcher.has_ended else [launcher.pidfd])]

    def _bury_each(self, gone: list[Seat]) -> None:
        """Ranks have died, and the job goes on."""
        for seat in gone:
            self._deaths.unregister(seat.pidfd)
            os.close(seat.pidfd)
            del self._pidfds[seat.pidfd]
            seat.pidfd, seat.lost = -1, True
            self._hear_last_words(seat)
            if seat.running:
                cause = seat.condemned or first_death(self._world.launcher, [seat], [seat], wait_s=0.0)[1]
                seat.leave()
                self._on_departure(seat, seat.departure(cause))

    def _bury(self, gone: list[Seat]) -> None:
        """A rank has died, and with it the job: say who was first, and why."""
        self._broken = True
        for seat in self._roles.values():
            self._hear_last_words(seat)
        if self._error is not None:
            return
        first, cause = first_death(self._world.launcher, self._roles.values(), gone)
        if first is None:
            told = f"the MPI job ended{cause and ': '}{cause}; it can be resumed from its last checkpoint"
            self._fail(RoleLostError(told))
        else:
            self._fail(self._lost(first, cause))

    def _judge(self) -> None:
        """Who hangs, is stopped or failed without being heard is lost."""
        now = time.monotonic()
        if now < self._judge_at or self._error is not None:
            return
        self._judge_at = now + _JUDGE_EVERY_S
        for seat in self._roles.values():
            if not seat.running:
                continue
            self._hear_last_words(seat)
            verdict = seat.verdict(now, self._response_s) if seat.running else ""
            if not verdict or self._error is not None:
                continue
            if self._survivors is not None and self._survivors.spare(seat):
                seat.condemned = verdict
                seat.signal(signal.SIGKILL)  # its death is seen to as any other
            else:
                self._broken = True
                self._fail(self._lost(seat, verdict))

    def _hear_last_words(self, seat: Seat) -> None:
        """Rank 0 passes messages on, and may be in a long update: last words are on the page as well."""
        words = seat.page.last_words
        if words and seat.running and self._error is None:
            self._on_failed(seat, words)

    @property
    def pids(self) -> dict[RoleId, int]:
        """The processes of ranks on this node."""
        return {seat.id: seat.page.pid for seat in self._roles.values() if seat.page.pid}

    # The end

    def hand_over(self, ranks: int) -> World | None:
        """Close, and leave the ranks to another plan: those of a launcher, and our own where so many are left."""
        self._leaves_ranks = self._leaves_ranks or self._ranks_left >= ranks
        self.close()
        return None if self._world.is_over else self._world

    @property
    def _ranks_left(self) -> int:
        return self._world.size - sum(seat.lost for seat in self._roles.values())

    def _end_everything(self) -> None:
        self.resources()  # measured while there is something to be measured
        began = time.monotonic()
        for seat in self._roles.values():
            seat.page.dismissed = True
        polite = not self._broken and self._dismiss()
        if polite and self._leaves_ranks:
            self._world.clear(self._ranks_left)
        elif polite and self._error is None:  # a job that failed is not worth the wait for MPI's end
            self._world.tell_all("exit")
            with contextlib.suppress(Exception):
                while not self._world.is_over and time.monotonic() - began < 2 * _TERM_S:
                    self._world.receive(0.05)
        else:
            self._end_by_force()
        if self._world.launcher is not None and not (polite and self._leaves_ranks):
            self._world.close()
        for seat in self._roles.values():
            seat.page.keep_a_copy()
            if seat.pidfd >= 0:
                os.close(seat.pidfd)
        self._pidfds.clear()
        self._deaths.close()
        self._pages = memoryview(b"")  # the mapping goes with its last view
        os.close(self._descriptor)

    def _dismiss(self) -> bool:
        """Have every role end where it stands; False when one does not."""
        self._world.tell_all("close")
        closed: set[int] = set()
        began, signalled = time.monotonic(), False
        there = self._ranks_left
        while len(closed) < there and (waited_s := time.monotonic() - began) < _TERM_S:
            for head, data in self._world.receive(0.05):
                if not head.control:
                    self._take_in(head.sender_id, head, data)
                elif head.kind == "closed":
                    closed.add(decode_body(data)["rank"])
            if self._world.is_over:
                return False
            if waited_s > _POLITE_S and not signalled:
                signalled = True
                for seat in self._roles.values():
                    if seat.rank not in closed:
                        seat.signal(signal.SIGTERM)
        while self._inbox:
            self._observer.on_message(self._inbox.popleft())
        return len(closed) == there

    def _end_by_force(self) -> None:
        """There is nothing to be said any more. A launcher whose rank is killed ends the others."""
        if self._world.launcher is None and not self._world.is_over:
            self._world.tell_all("abort")
            self._world.receive(0.5)
        for seat in self._roles.values():
            seat.signal(signal.SIGKILL)
