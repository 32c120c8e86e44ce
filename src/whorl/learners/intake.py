"""How trajectories come in: claimed from the actors' channels, in order for each actor, until a batch is complete.

    OneOfEach      the next trajectory of every actor, however long the slowest takes      (sync, overlap)
    FirstCome      as many as an update needs, of whoever has them (first_come.py)         (async)
    Windows        whatever any window shows that is new (windows.py)                      (window)
    Queues         whatever lies in its own group's queues, or in others' (queues.py)      (queue)
    OwnLanes       its own: this process acts as well (workflows/own_lanes.py)              (allreduce)

A lost actor may hand a trajectory over in its last instant, after its replacement was told where to begin. So
trajectories carry the incarnation of their actor: one of an incarnation that is known to be lost is given back; its
env steps were counted as lost with the others that it had not handed over. An actor may be started twice, when its
loss is heard of after its replacement was started with all the others: it follows the first order and no other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from whorl.engines.contract import Channel, Role, RoleId, Wait
from whorl.engines.waits import names_of
from whorl.job import Job
from whorl.learners.learner import Batch
from whorl.learners.ledger import Ledger, join_orders
from whorl.learners.quarantine import Quarantine, given_up, suspects
from whorl.learners.stragglers import Stragglers
from whorl.trajectory.layout import env_steps_of
from whorl.trajectory.orders import left_out
from whorl.types import Arrays


def named(trajectory: Arrays) -> tuple[int, Arrays]:
    """A trajectory with its strand, as a batch has it."""
    return int(trajectory["strand"][0]), trajectory


@dataclass
class _Source:
    """One actor's side."""

    channel: Channel
    incarnation: int = 0
    """Those before it are lost."""
    arrived: list[Arrays] = field(default_factory=list)
    """Oldest first, as the channel has them."""


class Intake(ABC):
    """Where a learner's batches come from."""

    @abstractmethod
    def start(self) -> None:
        """Have every actor begin where the ledgers say its lanes stand."""

    @abstractmethod
    def lost(self, body: dict[str, Any]) -> None:
        """A role that this one depends on was lost, and its replacement is up."""

    @abstractmethod
    def claim(self) -> bool:
        """Take what has been handed over. True when the batch is complete."""

    @abstractmethod
    def batch(self) -> Batch:
        """The trajectories to learn from, once ``claim`` was true."""

    @abstractmethod
    def release(self) -> None:
        """The batch has been learnt from: give its slots back to the actors."""

    @property
    def waiting(self) -> int:
        """Trajectories that have come, those of the next batch included."""
        return 0

    @property
    @abstractmethod
    def wait(self) -> Wait:
        """For whatever would help to complete the batch."""


class Keeper(Protocol):
    """Who accepts trajectories, and knows where the lanes of their actors stand."""

    job: Job
    actors: range
    ledgers: dict[int, Ledger]
    """Of each strand of its actors."""

    def ledger_after(self, strand: int, arrived: Iterable[Arrays]) -> Ledger:
        """Where this strand's lanes will stand after those of the trajectories that are its own."""
        ...


class FromActors(Intake):
    """What has been claimed and not yet learnt from. An actor may be ahead of the others."""

    def __init__(self, role: Role, keeper: Keeper, channels: list[Channel]) -> None:
        self._keeper = keeper
        self._line = role.line
        self._lane_map = keeper.job.lane_map
        self._sources = {actor: _Source(channel) for actor, channel in zip(keeper.actors, channels, strict=True)}
        self._handed_over: Counter[tuple[int, int]] = Counter()
        """Environment steps by actor and incarnation."""
        self._quarantine = Quarantine()

    @property
    @abstractmethod
    def awaited(self) -> list[int]:
        """Whose trajectories would help to complete the batch."""

    @property
    def waiting(self) -> int:
        """Claimed, or about to be."""
        return sum(source.channel.filled for source in self._sources.values())

    @property
    def wait(self) -> Wait:
        """For the trajectories of those."""
        awaited = [RoleId("actor", actor) for actor in self.awaited]
        endpoints = tuple(self._sources[actor.index].channel.readable for actor in awaited)
        return Wait(endpoints, f"the trajectories of {names_of(awaited)}", tuple(awaited))

    def start(self) -> None:
        """Every actor from the ledgers as they are."""
        for actor in self._sources:
            self._start(actor, [self._keeper.ledgers[strand] for strand in self._lane_map.strands_of_actor(actor)])

    def _start(self, actor: int, ledgers: list[Ledger]) -> None:
        """Have an actor begin where these say."""
        order = join_orders(ledgers)
        if text := left_out(order):
            self._line.send("warning", {"text": text})
        self._line.send("start", {**order, "handed_over": 0}, to=RoleId("actor", actor))

    def lost(self, body: dict[str, Any]) -> None:
        """An actor died and a new one is up: it begins after the last trajectory that arrived whole."""
        actor = int(body["index"])
        self._claim_of(actor)
        lost = int(body["counted"]) - self._handed_over.pop((actor, int(body["lost_incarnation"])), 0)
        self._line.send("lost_env_steps", {"env_steps": lost})
        self._sources[actor].incarnation = int(body["incarnation"])
        arrived = self._sources[actor].arrived
        ledgers = [self._keeper.ledger_after(strand, arrived) for strand in self._lane_map.strands_of_actor(actor)]
        for ledger in ledgers:
            if body["phase"] == "environment" and int(body["where"]) in ledger.lanes:
                self._blame(actor, int(body["where"]), ledger.number, lost, body["cause"])
            for lane, times in self._quarantine.given_up(ledger.number).items():
                if lane in ledger.lanes:
                    for suspect in self._suspects(actor, lane):
                        ledger.give_up(suspect, times)
        self._start(actor, ledgers)

    def _suspects(self, actor: int, lane: int) -> range:
        return suspects(self._keeper.job, lane, self._lane_map.lanes_of_actor(actor))

    def _blame(self, actor: int, lane: int, number: int, at: int, cause: str) -> None:
        """An actor died inside an environment, ``at`` steps into a trajectory: the third time, its episode is given
        up."""
        times = self._quarantine.died(lane, number, at)
        if not times:
            return
        self._line.send("warning", {"text": given_up(self._suspects(actor, lane), "actor", cause)})
        if times == 1:  # not each time: with one that dies of every episode the run must come to an end
            self._line.send("recovered", {"kind": "actor", "index": actor})

    def release(self) -> None:
        """Old deaths are forgotten."""
        self._quarantine.forget_before(min(ledger.number for ledger in self._keeper.ledgers.values()))

    def _claim_of(self, actor: int) -> int:
        """Take what one actor has handed over; returns how many good trajectories that is."""
        source, count = self._sources[actor], 0
        while (trajectory := source.channel.try_claim()) is not None:
            incarnation = int(trajectory["incarnation"][0])
            if incarnation >= source.incarnation:
                self._handed_over[actor, incarnation] += env_steps_of(trajectory)
                source.arrived.append(trajectory)
                count += 1
            else:
                source.channel.release(-1)
        return count

    def _give_back(self, actor: int, trajectory: Arrays | None = None) -> None:
        """This one of an actor's; None: the oldest."""
        source = self._sources[actor]
        place = 0 if trajectory is None else next(i for i, one in enumerate(source.arrived) if one is trajectory)
        del source.arrived[place]
        source.channel.release(place)


class OneOfEach(FromActors):
    """The next trajectory of every actor."""

    def __init__(self, role: Role, keeper: Keeper, channels: list[Channel]) -> None:
        super().__init__(role, keeper, channels)
        self._stragglers = Stragglers()

    def claim(self) -> bool:
        """Until there is one of everybody."""
        for actor in self._sources:
            self._claim_of(actor)
        return not self.awaited

    def batch(self) -> Batch:
        """In lane order."""
        batch = [named(source.arrived[0]) for source in self._sources.values()]
        took_s = {actor: float(one["took_s"][0]) for actor, (_, one) in zip(self._sources, batch, strict=True)}
        if slow := self._stragglers.saw(took_s):
            actor, how = slow
            lanes = self._lane_map.lanes_of_actor(actor)
            text = (
                f"actor-{actor} {how}: look at its environments (lanes {lanes[0]}..{lanes[-1]}) or where they run; "
                "--workflow async waits for nobody"
            )
            self._line.send("warning", {"text": text})
        return batch

    def release(self) -> None:
        """One slot of everybody."""
        for actor in self._sources:
            self._give_back(actor)
        super().release()

    @property
    def awaited(self) -> list[int]:
        """Those of whom none is there."""
        return [actor for actor, source in self._sources.items() if not source.arrived]
