"""An actor: a collector with its policy, its weights and its lanes, wherever those live."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from whorl.actors.apart import ApartCollector
from whorl.actors.collector import Collector
from whorl.actors.remote_policy import SERVER, RemotePolicy
from whorl.actors.stamps import Stamps
from whorl.agents.contract import Renewed
from whorl.engines.contract import Board, Channel, Role, RoleGenerator, RoleId, Wait
from whorl.engines.faults import fault_hook
from whorl.envs.contract import LaneEnvs
from whorl.envs.hosted_lanes import HostedLanes
from whorl.envs.lanes import make_lanes
from whorl.job import Job
from whorl.models.precision import acting_precision
from whorl.trajectory.orders import unpack_lane_states
from whorl.types import Arrays, Layout, leaves_of


class Actor:
    """Acts for the lanes the plan gave it. A context manager: leaving it closes the environments."""

    def __init__(
        self,
        job: Job,
        role: Role,
        layout: Layout | None,
        commands: list[Channel],
        answers: list[Channel],
        *,
        listen: Callable[[], object] | None = None,
        inference: tuple[Channel, Channel] | None = None,
    ) -> None:
        """``layout`` is that of the weights, None where ``inference`` (requests, replies) is asked for actions.
        ``listen`` is for a role that does more than act: it reads the role's line, and tells ``host_lost``."""
        self._job = job
        self._role = role
        self._lanes = job.lane_map.lanes_of_actor(role.id.index)
        layout = layout or Layout(())
        self.weights = layout.allocate()
        """The flat weights acted with; a workflow reads the version it wants into it."""
        self.weight_views = layout.views(self.weights)
        """The same by name, as the policy is given them."""
        self.version = -1
        """Of the weights, as read last."""
        self.on_weights: Callable[[], None] | None = None
        """Called when new weights were read: a workflow may put another array in the place of one."""
        seed = job.config.run.seed
        if commands:
            channels = list(zip(commands, answers, strict=True))
            hosted = HostedLanes(
                job.env, self._lanes, channels, self._wait, listen or self._listen, self._recovered, role.incarnation
            )
            self._hosted: HostedLanes | None = hosted
            self._envs: LaneEnvs = hosted
        else:
            self._hosted = None
            self._envs = make_lanes(job.config.env, job.env, self._lanes, seed, role.clock)
        self._stamps = Stamps(job.agent_spec)
        self._leaves = False
        self._tells_of_faults_at = 1
        strike = fault_hook(role.id, role.incarnation)
        self._remote = None if inference is None else RemotePolicy(role, *inference, self._listen)
        policy = self._remote or job.agent.policy(job.config.agent, job.env)
        self._renewed = policy if isinstance(policy, Renewed) else None
        self._collector: Collector | ApartCollector = (
            Collector(job.agent_spec, policy, self._envs, seed, role.clock, strike)
            if self._hosted is None
            else ApartCollector(job.agent_spec, policy, self._hosted, seed, role.clock, strike)
        )
        self._numbers: list[int] = []
        """Of each strand's next trajectory."""

    def begin(self) -> Generator[Wait, None, int]:
        """Wait for the start order, bring the lanes to where it says, and return the number of the next trajectory."""
        while (order := self._listen()) is None:
            yield Wait((self._role.line.readable,), "the learner's start order")
        return (yield from self.begin_at(order))

    def begin_at(self, order: Mapping[str, Any]) -> Generator[Wait, None, int]:
        """Bring the lanes to where an order says, and return the number of the next trajectory (of the first strand,
        where there are several)."""
        states = unpack_lane_states(order, self._job.env)
        yield from self._collector.begin(states, leaves_of(order, "state/"))
        self._stamps.begin(order)
        self._numbers = [int(number) for number in order["number"][:: self._job.lane_map.envs_per_strand]]
        return self._numbers[0]

    def stays(self) -> bool:
        """False once it was told to leave: whatever was begun is handed over, and that is all."""
        self._listen()
        return not self._leaves

    @property
    def has_strands(self) -> bool:
        """Its lanes have trajectories of their own, to be collected by ``stream``."""
        return self._job.lane_map.strands_per_actor > 1

    def fill(self, trajectory: Arrays, version: int, number: int) -> Generator[Wait, None, None]:
        """Collect one trajectory of all lanes with the weights as they are."""
        began = time.perf_counter()
        self._renew()
        yield from self._collector.fill(trajectory, self.weight_views, version, number)
        self._stamps.stamp(trajectory)
        self._sign(trajectory, self._role.id.index)
        trajectory["took_s"][0] = time.perf_counter() - began

    def read(self, weights: Board) -> int:
        """Take over the newest weights; returns their version."""
        self.version = weights.read(self.weights)
        if self.on_weights is not None:
            self.on_weights()
        return self.version

    def stream(
        self, out: Channel, weights: Board | None, finish: Callable[[Arrays], None] | None = None
    ) -> RoleGenerator:
        """Trajectory after trajectory of every strand, in the order they get full, each row with the newest weights;
        until it leaves. ``finish`` has the last word on each."""
        collector, lane_map = self._collector, self._job.lane_map
        assert isinstance(collector, ApartCollector), "only lanes in processes of their own have strands of their own"
        mine, width = lane_map.strands_of_actor(self._role.id.index), lane_map.envs_per_strand
        version = -1

        def newest() -> tuple[Arrays, int]:
            nonlocal version
            if weights is not None and weights.version != version:
                version = self.read(weights)
                self._renew()
            return self.weight_views, version

        def fill_next(place: int, trajectory: Arrays) -> None:
            self._sign(trajectory, mine[place])
            collector.open(range(place * width, (place + 1) * width), trajectory, self._numbers[place])
            self._numbers[place] += 1

        for place in range(len(mine)):
            fill_next(place, out.layout.views(out.layout.allocate()))
        unfinished = len(mine)
        while unfinished:
            for full in (yield from collector.advance(newest)):
                place = int(full["strand"][0]) - mine.start
                self._stamps.stamp(full, slice(place * width, (place + 1) * width))
                slot = yield from out.reserve()
                for name, array in slot.items():
                    array[...] = full[name]
                if finish is not None:
                    finish(slot)
                out.commit()
                if self.stays():
                    fill_next(place, full)
                else:
                    unfinished -= 1

    def _renew(self) -> None:
        """Tell the policy that its weights may have changed."""
        if self._renewed is not None:
            self._renewed.renew(self.weight_views, acting_precision(self._job.config))

    def _sign(self, trajectory: Arrays, strand: int) -> None:
        trajectory["strand"][0] = strand
        trajectory["incarnation"][0] = self._role.incarnation
        if self._envs.fault_count >= self._tells_of_faults_at:
            self._tell_of_faults()

    def _tell_of_faults(self) -> None:
        """In the log, and to the user: the first fault, and whenever there are twice as many."""
        count, latest = self._envs.fault_count, list(self._envs.faults)
        self._tells_of_faults_at = 2 * count
        # Not printed: on the inline engine the user's terminal would be the log.
        with contextlib.suppress(OSError), (self._job.run_dir / "logs" / f"{self._role.id}.log").open("a") as log:
            print(f"{count} environment faults so far, the latest:", *latest, sep="\n  ", file=log)
        times = "a fault" if count == 1 else f"{count} faults"
        text = f"{self._role.id} met {times} of its environments, which were made anew; the last: {latest[-1]}"
        self._role.line.send("warning", {"text": text})

    def _wait(self, endpoints: tuple[Any, ...], waiting_for: str, lanes: Sequence[int]) -> Wait:
        """For environments in processes of their own, or for news of them."""
        peers = tuple(RoleId("env", lane) for lane in lanes)
        return Wait((*endpoints, self._role.line.readable), waiting_for, peers)

    def _listen(self) -> dict[str, Any] | None:
        """Hear which environments' processes were replaced, at any time; returns a start order if one comes."""
        while (message := self._role.line.try_receive()) is not None:
            if message.kind == "start":
                return message.body
            if message.kind == "leave":
                self._leaves = True
                continue
            if message.kind == "lost" and message.body["kind"] == SERVER.kind and self._remote is not None:
                self._remote.server_lost()
            elif message.kind == "lost":
                self.host_lost(message.body)
        return None

    def host_lost(self, body: Mapping[str, Any]) -> None:
        """The process of an environment was replaced."""
        if self._hosted is not None:
            self._hosted.host_lost(body["index"], body["incarnation"])

    def _recovered(self, lane: int) -> None:
        """An environment whose process had died steps again: its deaths so far are not held against it."""
        self._role.line.send("recovered", {"kind": "env", "index": lane})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._hosted is None or kind is None or kind is GeneratorExit:
            self._envs.close()
        # Else the actor failed and is replaced, and the next one needs the environments' processes.
