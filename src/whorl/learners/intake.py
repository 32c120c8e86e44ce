"""How trajectories come in: claimed from the actors' channels, in order for each actor, until a batch is complete.

    OneOfEach      the next trajectory of every actor, however long the slowest takes      (sync, overlap)
    FirstCome      as many as an update needs, of whoever has them                         (async)

A lost actor may hand a trajectory over in its last instant, after its replacement was told where to begin. So every
start order has a number, which trajectories carry: one that follows an earlier order is given back, and counted as
lost.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, deque
from dataclasses import dataclass, field

from whorl.engines.contract import Channel, Endpoint, Role
from whorl.learners.learner import Batch, Learner
from whorl.trajectory.layout import env_steps_of
from whorl.types import Arrays

_ORDERS_PER_INCARNATION = 2**32


@dataclass
class _Source:
    """One actor's side."""

    channel: Channel
    order: int = -1
    """The start order it follows."""
    claimed: deque[Arrays | None] = field(default_factory=deque)
    """Oldest first, as they must be released; None: refused."""

    @property
    def arrived(self) -> list[Arrays]:
        return [trajectory for trajectory in self.claimed if trajectory is not None]

    def release_refused(self) -> None:
        while self.claimed and self.claimed[0] is None:
            self.claimed.popleft()
            self.channel.release()


class Intake(ABC):
    """What has been claimed and not yet learnt from. An actor may be ahead of the others."""

    def __init__(self, role: Role, learner: Learner, channels: list[Channel]) -> None:
        self._learner = learner
        self._line = role.line
        self._sources = {actor: _Source(channel) for actor, channel in zip(learner.ledgers, channels, strict=True)}
        self._last_order = role.incarnation * _ORDERS_PER_INCARNATION
        self._handed_over: Counter[tuple[int, int]] = Counter()
        """Environment steps by actor and incarnation."""

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
    @abstractmethod
    def awaited(self) -> list[int]:
        """Whose trajectories would help to complete the batch."""

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Ready when one of those is there."""
        return tuple(self._sources[actor].channel.readable for actor in self.awaited)

    def start(self, actor: int) -> int:
        """The number of a new start order for an actor; what follows an earlier one is refused from now on."""
        self._last_order += 1
        self._sources[actor].order = self._last_order
        return self._last_order

    def arrived(self, actor: int) -> list[Arrays]:
        """What is there of an actor, and not yet learnt from."""
        self._claim_of(actor)
        return self._sources[actor].arrived

    def handed_over(self, actor: int, incarnation: int) -> int:
        """Environment steps that a lost actor handed over before; asked once."""
        return self._handed_over.pop((actor, incarnation), 0)

    def _claim_of(self, actor: int) -> int:
        """Take what one actor has handed over; returns how many good trajectories that is."""
        source, count = self._sources[actor], 0
        while (trajectory := source.channel.try_claim()) is not None:
            env_steps = env_steps_of(trajectory)
            self._handed_over[actor, int(trajectory["incarnation"][0])] += env_steps
            if trajectory["order"][0] == source.order:
                source.claimed.append(trajectory)
                count += 1
            else:
                source.claimed.append(None)
                self._line.send("lost_env_steps", {"env_steps": env_steps})
        source.release_refused()
        return count

    def _give_back(self, actor: int) -> None:
        """An actor's oldest."""
        source = self._sources[actor]
        source.claimed.popleft()
        source.channel.release()
        source.release_refused()


class OneOfEach(Intake):
    """The next trajectory of every actor."""

    def claim(self) -> bool:
        """Until there is one of everybody."""
        for actor in self._sources:
            self._claim_of(actor)
        return not self.awaited

    def batch(self) -> Batch:
        """In lane order."""
        return [(actor, source.arrived[0]) for actor, source in self._sources.items()]

    def release(self) -> None:
        """One slot of everybody."""
        for actor in self._sources:
            self._give_back(actor)

    @property
    def awaited(self) -> list[int]:
        """Those of whom none is there."""
        return [actor for actor, source in self._sources.items() if not source.claimed]


class FirstCome(Intake):
    """Whatever comes, in the order it comes; what is too stale by then is dropped."""

    def __init__(self, role: Role, learner: Learner, channels: list[Channel]) -> None:
        super().__init__(role, learner, channels)
        self._needed = learner.job.lane_map.trajectories
        self._bound = learner.job.config.workflow.max_staleness
        self._order: deque[int] = deque()
        """The actors of what has arrived, first come first."""
        self._taken: list[int] = []

    def claim(self) -> bool:
        """Take what is there, of everybody."""
        for actor in self._sources:
            self._claim_of(actor)
        self._drop_stale()
        return len(self._order) >= self._needed

    def _claim_of(self, actor: int) -> int:
        count = super()._claim_of(actor)
        self._order.extend([actor] * count)
        return count

    def _drop_stale(self) -> None:
        """An actor's oldest comes first, so that whatever is too stale stands in front."""
        if self._bound is None:
            return
        for actor, source in self._sources.items():
            for trajectory in source.arrived:
                if self._learner.staleness(trajectory) <= self._bound:
                    break
                self._learner.drop(actor, trajectory)
                self._give_back(actor)
                self._order.remove(actor)

    def batch(self) -> Batch:
        """The first that came."""
        self._taken = [self._order.popleft() for _ in range(self._needed)]
        trajectories = {actor: iter(self._sources[actor].arrived) for actor in set(self._taken)}
        return [(actor, next(trajectories[actor])) for actor in self._taken]

    def release(self) -> None:
        """The slots of the batch."""
        for actor in self._taken:
            self._give_back(actor)
        self._taken = []

    @property
    def awaited(self) -> list[int]:
        """Anybody's."""
        return list(self._sources)
