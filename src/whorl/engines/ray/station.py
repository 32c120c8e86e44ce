"""A station: the Ray actor that hosts the roles of one unit, on whichever node Ray put it.

It never runs a role itself. Roles are its children, started by a nursery as on the local engine, so that they are light
(no Ray in them), may hang, crash or hold the interpreter as they like, and are judged by their status pages. The
station watches them, carries what they exchange with other stations, and reports to the supervisor, which decides.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from whorl.config.schema import EngineConfig
from whorl.engines.contract import SUPERVISOR, RoleId
from whorl.engines.local.fleet import Fleet
from whorl.engines.local.hosted import Hosted
from whorl.engines.local.limits import check_descriptors
from whorl.engines.local.spawner import NurseryLostError
from whorl.engines.local.watch import Watch
from whorl.engines.local.wiring import needed_descriptors
from whorl.engines.members import Departure
from whorl.engines.plain import plan_from_plain
from whorl.engines.ray.crossings import Crossings
from whorl.engines.ray.news import News
from whorl.engines.ray.pinning import pin
from whorl.engines.ray.stream import Arrivals
from whorl.engines.wire import Envelope, FrameReader, decode_body, encode_body, encode_frame, envelope
from whorl.errors import WhorlError

_TICK_S = 0.1
_REPORT_EVERY_S = 0.5
_SETTLE_S = 2.0


class Station:
    """Hosts the roles of a unit. Its coroutines are what others call."""

    def __init__(self, setup: bytes) -> None:
        self._setup = decode_body(setup)
        self._unit: int = self._setup["unit"]
        self._generation: int = self._setup["generation"]
        self._epoch: int = self._setup["epoch"]
        self._generations: dict[int, int] = {}
        """Of the other stations, by unit."""
        self._arrivals = Arrivals()
        self._frames = FrameReader()
        self._news = News()
        self._tasks: set[asyncio.Task[None]] = set()
        self._report_at = 0.0
        self._fleet: Fleet | None = None
        """None before it is open, and when it is closed."""
        self._at_work = True

    # Life

    async def open(self) -> dict[str, Any]:
        """Make everything that the roles will share; returns where this is."""
        import ray

        setup = self._setup
        theirs = [os.fsdecode(path) for path in setup["sys_path"]]
        sys.path[:] = [*theirs, *(path for path in sys.path if path not in theirs)]
        os.environb.update(setup["environ"])
        folder = Path(os.fsdecode(setup["folder"]))
        if folder.is_dir():
            os.chdir(folder)
        plan = plan_from_plain(setup["plan"])
        config = EngineConfig(**setup["config"])
        check_descriptors(needed_descriptors(plan))
        self._loop = asyncio.get_running_loop()
        self._pin(setup["cores"], plan.roles[0].id)
        fleet = self._fleet = Fleet(plan, config, setup["torch_threads"])
        self._watch = Watch(fleet, self, config.response_s)
        for hosted in fleet.roles.values():
            hosted.rest()
        unit_of = {RoleId(*role): unit for *role, unit in setup["unit_of"]}
        self._crossings = Crossings(plan, fleet, self._unit, unit_of, setup["board_units"])
        self._crossings.begin_at(setup["handed_over"])
        self._loop.add_reader(fleet.epoll.fileno(), self._look)
        self._spawn(self._tick())
        node = ray.get_runtime_context().get_node_id()
        return {"node": node, "address": ray.util.get_node_ip_address(), "pid": os.getpid()}

    def _pin(self, cores: int, who: RoleId) -> None:
        """To so many, where there are; a run that goes slower is no reason to end it."""
        try:
            if not cores or pin(cores):
                return
            reason = f"there are not {cores} cores for it alone on its machine"
        except (WhorlError, OSError) as error:
            reason = str(error)
        text = encode_body({"text": f"{who} is not pinned: {reason}"})
        self._news.post(encode_frame(envelope(who, SUPERVISOR, "warning"), text))

    async def close(self) -> None:
        """End every role, politely, in bounded time."""
        if self._fleet is None:
            return
        self._loop.remove_reader(self._fleet.epoll.fileno())
        for task in self._tasks:
            task.cancel()
        self._crossings.drop()
        fleet, self._fleet = self._fleet, None
        fleet.close()

    def _spawn(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tick(self) -> None:
        """Hangs are judged, and reports made, by the clock."""
        while self._fleet is not None:
            await asyncio.sleep(_TICK_S)
            self._watch.judge()
            if time.monotonic() >= self._report_at:
                self._report(usage=False)

    def _look(self) -> None:
        self._watch.look(0.0)
        self._watch.judge()

    # Other stations

    async def meet(self, unit: int, generation: int, handle: Any) -> None:
        """Another station, perhaps in the place of a lost one."""
        if self._fleet is None or generation <= self._generations.get(unit, -1):
            return
        replaced = unit in self._generations
        self._generations[unit] = generation

        def call(number: int, headers: bytes, arrays: list[Any]) -> Any:
            return handle.receive.remote(self._unit, self._generation, self._epoch, number, headers, arrays)

        self._crossings.meet(unit, call, replaced)

    async def receive(
        self, sender: int, generation: int, epoch: int, number: int, headers: bytes, arrays: list[Any]
    ) -> None:
        """A batch of another station's stream. Seen to as a whole, once everything in it is here: a fetch that fails
        fails the call, which is then made again."""
        here = [await array[0] if isinstance(array, list) else array for array in arrays]
        if self._fleet is None or not self._arrivals.is_new(sender, generation, number) or epoch != self._epoch:
            return
        position = 0
        for header in decode_body(headers)["batch"]:
            self._crossings.heed(header, here[position] if header["arrays"] else None)
            position += header["arrays"]

    # What the watch sees

    def on_frame(self, _hosted: Hosted, head: Envelope, body: bytes) -> None:
        """A role's message, for the supervisor to pass on."""
        self._news.post(encode_frame(head, body))

    def on_overdue(self, peers: list[RoleId]) -> None:
        """Somebody here waits long for these: the supervisor knows where they are."""
        self._say("overdue", {"peers": [[peer.kind, peer.index] for peer in peers]})

    def on_departure(self, hosted: Hosted, departure: Departure) -> None:
        """A role's process is gone: report it once everything that it handed over has arrived."""
        body = {**asdict(departure), "role": [hosted.id.kind, hosted.id.index], "incarnation": hosted.incarnation}
        body |= {"ended": hosted.ended, "counted": hosted.page.counted}
        self._spawn(self._report_departure(body))

    async def _report_departure(self, body: dict[str, Any]) -> None:
        with contextlib.suppress(TimeoutError):  # its reader cannot be reached just now
            await asyncio.wait_for(self._crossings.settle(_SETTLE_S), _SETTLE_S)
        self._report(usage=False)
        self._say("departed", body)

    def on_nursery_lost(self) -> None:
        """Roles die with their nursery; the supervisor replaces the whole station."""
        os._exit(1)

    # The supervisor

    async def tell(self, number: int, frames: bytes) -> None:
        """Frames for roles, and orders."""
        if self._fleet is None or not self._arrivals.is_new(-1, 0, number):
            return
        for head, body in self._frames.feed(frames):
            if head.control:
                self._obey(self._fleet, head.kind, decode_body(body))
            elif (hosted := self._fleet.roles.get(head.to_id)) is not None:
                self._watch.deliver(hosted, head, body)

    def _obey(self, fleet: Fleet, kind: str, body: dict[str, Any]) -> None:
        match kind:
            case "start":
                self._start(fleet, fleet.roles[RoleId(*body["role"])], body)
            case "bury":
                self._arrivals.bury(body["unit"], body["generation"])
            case "ping":
                self._watch.ping(RoleId(*body["role"]))
            case "report":
                self._report(usage=body["usage"], number=body["number"])
            case "at_work":
                self._at_work = body["at_work"]
                for hosted in fleet.roles.values():
                    hosted.page.supervise(self._at_work)
            case "renew":
                self._renew(fleet, body["epoch"])

    def _start(self, fleet: Fleet, hosted: Hosted, body: dict[str, Any]) -> None:
        hosted.incarnation = body["incarnation"]
        hosted.ended = False
        hosted.deaths.clear()
        hosted.deaths.update(dict(body["deaths"]))
        try:
            fleet.start(hosted)
        except NurseryLostError:
            self.on_nursery_lost()
        except (WhorlError, OSError) as error:  # no processes or descriptors left; the supervisor tries again, or ends
            hosted.start_afresh()  # or what its predecessor has counted would count twice
            self.on_departure(hosted, Departure(f"its process could not be started: {error}", 0.0, None, "other", 0))
            return
        hosted.page.supervise(self._at_work)

    def _renew(self, fleet: Fleet, epoch: int) -> None:
        """End every role and make every endpoint afresh."""
        fleet.end_processes(term_s=0.0)
        self._crossings.drop()
        fleet.renew_endpoints()
        self._epoch = epoch
        self._crossings.build()
        self._report(usage=False)
        self._say("renewed", {"epoch": epoch})

    def _report(self, usage: bool, number: int = 0) -> None:
        if self._fleet is None:
            return
        self._report_at = time.monotonic() + _REPORT_EVERY_S
        rows = []
        for hosted in self._fleet.roles.values():
            row = {
                "role": [hosted.id.kind, hosted.id.index],
                "incarnation": hosted.incarnation,
                "counted": hosted.page.counted,
                "shares": hosted.shares(),
            }
            rows.append({**row, "usage": hosted.usage()} if usage else row)
        carried = [[kind, index, *known] for (kind, index), known in self._crossings.carried.items()]
        body = {"number": number, "roles": rows, "carried": carried, "arrived": self._crossings.arrived}
        self._say("report", body)

    def _say(self, kind: str, body: dict[str, Any]) -> None:
        body = {**body, "unit": self._unit, "generation": self._generation}
        self._news.post(encode_frame(envelope(SUPERVISOR, SUPERVISOR, kind, control=True), encode_body(body)))

    async def news(self, acknowledged: int) -> tuple[int, bytes]:
        """For the envoy: what is new since the batch of this number, which has arrived."""
        return await self._news.after(acknowledged)
