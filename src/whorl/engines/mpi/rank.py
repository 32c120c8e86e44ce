"""A rank: waits to be told its role, runs it, and waits again. ``python -m whorl.engines.mpi.rank SOCKET``.

Between the orders of the driver a rank sleeps as a waiting role does. Rank 0 is the one that the driver talks to.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import socket
import sys
import time
from types import FrameType
from typing import Any, cast

from whorl.engines.contract import Role, RoleSpec
from whorl.engines.driving import Dismissed
from whorl.engines.entries import begin_role, load_entry
from whorl.engines.faults import forget_first_faults
from whorl.engines.local.line import FrameSocket
from whorl.engines.local.nursery import redirect_output, seed_global_generators
from whorl.engines.local.rolemain import STARTING, describe_failure
from whorl.engines.mpi.beginning import MPI, initialise
from whorl.engines.mpi.loop import BackOff, RankLine, RankLoop
from whorl.engines.mpi.nodes import Nodes, name_of_node
from whorl.engines.mpi.orders import EVERYBODY
from whorl.engines.mpi.pages import RankClock, RankPage, open_page, private_page
from whorl.engines.mpi.post import Post
from whorl.engines.mpi.wiring import Comms, Wiring
from whorl.engines.plain import plan_from_plain
from whorl.engines.threads import thread_environ
from whorl.engines.wire import decode_body, encode_body, envelope

GOODBYE_S = 3.0
"""Ranks that do not come to the end of a plan within this time are ended by MPI."""
_UNHEARD_S = 4.5
_PAGE_EVERY_S = 1.0
_FIRST_START_S = 600.0


class Rank:
    """One rank, from the first order to the last."""

    def __init__(self, driver: socket.socket | None) -> None:
        self._driver = None if driver is None else FrameSocket(driver)
        self._node = name_of_node(MPI.COMM_WORLD.rank)
        self._enter(MPI.COMM_WORLD.Dup())
        self._wiring: Wiring | None = None
        self._spec: RoleSpec | None = None
        self._loop: RankLoop | None = None
        self._begins = False
        """The role is about to run for the first time: others may be quicker, and talk to it already."""
        self._failed_at: float | None = None
        self._page_sent = 0.0
        self._survives = False
        """The loss of a rank does not end the job."""
        self.warned = False
        """A batch system has signalled this rank, and perhaps no other: the driver has to hear of it."""

    def _enter(self, world: MPI.Intracomm) -> None:
        """Be one of these ranks from now on."""
        self._world = world
        self._comms = Comms(world.Dup(), world.Dup(), world.Dup())
        self._post = Post(world, self._driver)
        self._nodes: Nodes | None = None

    def serve(self) -> None:
        """Obey the driver until it has no more orders."""
        self._say_hello()
        while True:
            kind, body = self._next_order()
            match kind:
                case "plan":
                    self._prepare(body)
                case "go":
                    if self._spec is not None and not self._spec.parked:
                        self._run(0)
                case "start":
                    self._run(body["incarnation"])
                case "close":
                    self._post.send_control("closed", {"rank": self._world.rank})
                case "clear":
                    left = self._clear()
                    if self._survives:
                        self._enter(left)
                        forget_first_faults()
                    self._say_hello()
                case "abort":
                    self._world.Abort(1)
                case "exit":
                    self._clear()
                    return

    def _say_hello(self) -> None:
        self._post.send_control("hello", {"rank": self._world.rank, "node": self._node})

    def _next_order(self) -> tuple[str, dict[str, Any]]:
        back_off = BackOff()
        while True:
            self._pump()
            if self._post.control:
                head, body = self._post.control.popleft()
                return head.kind, decode_body(body)
            if not self._begins:
                self._post.inbox.clear()  # the role has ended; the next would not know what it is about
            if self._failed_at is not None and not self._survives and time.monotonic() - self._failed_at > _UNHEARD_S:
                print(f"whorl: {self._spec.id if self._spec else ''} failed and nobody hears it", file=sys.stderr)
                self._world.Abort(1)
            back_off.sleep()

    def _pump(self) -> None:
        """Messages in and out. A driver that has gone is an order to end."""
        if self._post.driver_is_gone and not self._ends_soon:
            self._post.send(envelope(EVERYBODY, EVERYBODY, "exit", control=True), encode_body(None))
        if self.warned and self._spec is not None:
            self.warned = False
            self._post.send_control("warned", {}, self._spec.id)
        self._post.pump()
        for body in self._post.take_control("at_work"):
            self._page.supervise(body["at_work"])
        for body in self._post.take_control("report"):
            self._send_page(**body)
        if self._wiring is not None:
            self._wiring.tend()

    def _send_page(self, **more: Any) -> None:
        """For a driver on another node."""
        assert self._spec is not None
        self._page_sent = time.monotonic()
        self._post.send_control("page", {"page": self._page.copy(), **more}, self._spec.id)

    @property
    def _ends_soon(self) -> bool:
        return any(head.kind in ("close", "exit", "abort") for head, _ in self._post.control)

    # A plan

    def _prepare(self, body: dict[str, Any]) -> None:
        plan = plan_from_plain(body["plan"])
        rank = self._world.rank
        sys.path[:] = [os.fsdecode(path) for path in body["sys_path"]]
        self._settings = body
        self._survives = body["ulfm"]
        self._job = plan.job
        self._post.places = {spec.id: place for place, spec in enumerate(plan.roles)}
        here = self._node == body["node"]
        self._is_here = here
        page = open_page(body["pages"], rank, self._world.size) if here else private_page()
        self._page = RankPage(page)
        if here:
            self._page.introduce()
        self._clock = RankClock(page)
        if self._nodes is None:
            self._nodes = Nodes.look(self._world, body["one_sided"])
        self._spec = plan.roles[rank] if rank < len(plan.roles) else None
        self._begins = self._spec is not None and not self._spec.parked
        role = self._spec or RoleSpec(EVERYBODY, "idle:idle")
        if body["log_dir"] and self._spec is not None:
            redirect_output(os.path.join(body["log_dir"], f"{role.id}.log"))  # noqa: PTH118
        self._wiring = Wiring(plan, role, self._comms, self._nodes, self._clock)
        self._clock.tend = self._tend_lightly
        told = {"rank": rank, "one_sided": self._nodes.one_sided, "slowest_get_s": self._nodes.slowest_get_s}
        self._post.send_control("ready", told)

    def _run(self, incarnation: int) -> None:
        """The role, once."""
        spec, wiring = self._spec, self._wiring
        assert spec is not None
        assert wiring is not None
        os.environ.update(
            thread_environ(self._settings["torch_threads"] if spec.torch else 1, self._settings["crowded"])
        )
        seed_global_generators(f"{[spec.id.kind, spec.id.index]}")
        self._begins = False
        wiring.renew()
        clock = self._clock
        told: dict[str, Any] = {"incarnation": incarnation}
        self._loop = loop = RankLoop(spec.id, clock, self._page, self._settings["patience_s"], self._tend)
        try:
            clock.enter("other", deadline_s=_FIRST_START_S, where=STARTING)
            entry = load_entry(spec.entry)
            role = Role(
                spec.id, incarnation, RankLine(spec.id, self._post, clock), clock, decode_body(encode_body(self._job))
            )
            clock.enter("other")
            loop.drive(begin_role(entry, role, wiring.arguments()))
            kind = "ended"
        except Dismissed:
            kind = "ended"
        except BaseException as error:
            loop.settle()
            kind, told = "failed", describe_failure(error)
            self._page.say_last(told)
            self._failed_at = time.monotonic()
        loop.settle()
        self._loop = None
        clock.enter("other")
        if not self._is_here:
            told = {**told, "page": self._page.copy()}
        self._post.send_control(kind, told, spec.id)

    def _tend(self) -> bool:
        """What a waiting role's loop does; True when the role is to end."""
        self._pump()
        if not self._is_here and time.monotonic() - self._page_sent > _PAGE_EVERY_S and self._spec is not None:
            self._send_page()
        return self._ends_soon or self._page.dismissed

    def _tend_lightly(self) -> None:
        if self._loop is not None:
            self._pump()

    def _clear(self) -> MPI.Intracomm:
        """Give everything of the plan back, when all ranks that are left have come to this. Returns these."""
        left = cast(MPI.Intracomm, self._world.Shrink()) if self._survives else self._world
        everybody = left.Ibarrier()
        end, back_off = time.monotonic() + GOODBYE_S, BackOff()
        while not everybody.Test():
            self._pump()
            if time.monotonic() > end:
                self._world.Abort(1)
            back_off.sleep()
        if self._wiring is not None:
            self._wiring.close()
        self._wiring = self._spec = None
        self._failed_at = None
        return left

    def on_terminate(self) -> None:
        """The driver's signal to a role that does not come to its loop; anybody else's is the driver's business."""
        if self._loop is not None:
            self._loop.dismiss()

    @property
    def finalises(self) -> bool:
        """MPI can be ended in good order: it may wait for ever for ranks that were lost."""
        return not self._survives

    @property
    def is_orphan(self) -> bool:
        """The driver has died: a launcher of its own passes on the signal that this sent it."""
        return self._spec is not None and self._is_here and not os.path.exists(self._settings["pages"])  # noqa: PTH110

    @property
    def is_dismissed(self) -> bool:
        """The driver wants the role to end."""
        return self._spec is not None and self._page.dismissed


def run_rank(driver: socket.socket | None, forward_to: int | None = None, *, of_launcher: bool = False) -> None:
    """Be a rank to the end. ``forward_to`` is the driver's pid where a launcher talks to this process instead; the
    others of a launcher tell the driver by a message that they were warned."""
    faulthandler.enable()
    initialise()
    rank = Rank(driver)

    def on_signal(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGTERM and rank.is_dismissed:
            rank.on_terminate()
        elif number == signal.SIGTERM and rank.is_orphan:
            os._exit(1)  # nobody is left to be told anything
        elif forward_to is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(forward_to, number)
        elif of_launcher and number == signal.SIGTERM:
            rank.warned = True

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, on_signal)
    rank.serve()
    if rank.finalises:
        MPI.Finalize()
    elif forward_to is None:
        os._exit(0)  # without a word to MPI, which would take it for an abort


def main() -> None:
    """A rank of an ``mpiexec`` that the driver has started."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    initialise()
    driver = None
    if MPI.COMM_WORLD.rank == 0:
        driver = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        driver.connect(sys.argv[1])
    try:
        run_rank(driver)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        MPI.COMM_WORLD.Abort(1)


if __name__ == "__main__":
    main()
