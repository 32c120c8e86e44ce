"""The role of a replay: takes trajectories in, hands batches out, takes priorities back, at its pace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from whorl.engines.contract import Board, Channel, Role, RoleGenerator, RoleId, Wait
from whorl.engines.faults import fault_hook
from whorl.engines.waits import names_of
from whorl.job import Job
from whorl.learners.intake import FromActors, named
from whorl.learners.learner import Batch
from whorl.learners.pieces import Pieces
from whorl.learners.replay.store import Store
from whorl.learners.saving import DISK_TIMEOUT_S, STORED
from whorl.runs.checkpoint import load, taking_over
from whorl.trajectory.orders import within_limit

_FIRST_LEARNER = RoleId("learner", 0)


class Arrivals(FromActors):
    """Trajectories one by one, of whoever has one."""

    def claim(self) -> bool:
        """Take what is there. True when there is anything."""
        for actor in self._sources:
            self._claim_of(actor)
        return self._next() is not None

    def batch(self) -> Batch:
        """One trajectory, of each actor in turn."""
        actor = self._next()
        assert actor is not None
        return [named(self._sources[actor].arrived[0])]

    def release(self) -> None:
        """It was taken in."""
        actor = self._next()
        assert actor is not None
        self._give_back(actor)
        self._sources[actor] = self._sources.pop(actor)  # to the end of the line
        super().release()

    def _next(self) -> int | None:
        return next((actor for actor, source in self._sources.items() if source.arrived), None)

    @property
    def awaited(self) -> list[int]:
        """Anybody's."""
        return sorted(self._sources)


class Replay:
    """One replay at work."""

    def __init__(
        self, role: Role, weights: Board, trajectories: list[Channel], batches: list[Channel], priorities: list[Channel]
    ) -> None:
        self._role = role
        self._weights = weights
        self._batches, self._priorities = batches, priorities
        self._store = Store(Job.from_plain(role.job), role.id.index, len(batches))
        self._arrivals = Arrivals(role, self._store, trajectories)
        self._pieces = Pieces()
        self._strike = fault_hook(role.id, role.incarnation)
        self._inserted = 0
        back = (role.line.readable, *(channel.readable for channel in priorities))
        actors = self._arrivals.wait
        learners = tuple(RoleId("learner", rank) for rank in range(len(batches)))
        self._for_actors = Wait((*back, *actors.endpoints), actors.waiting_for, actors.peers)
        self._for_learners = Wait(
            (*back, *actors.endpoints, *(channel.writable for channel in batches)),
            f"{names_of(learners)} to learn from a batch",
            learners,
        )

    def open(self) -> RoleGenerator:
        """Go on from the checkpoint that the first learner names, and start the actors."""
        losses: list[dict[str, Any]] = []
        while (message := self._role.line.try_receive()) is None or message.kind == "lost":
            if message is None:
                yield Wait((self._role.line.readable,), "the first learner to name a checkpoint", (_FIRST_LEARNER,))
            else:
                losses.append(message.body)
        if message.body["checkpoint"]:
            self._load(Path(message.body["checkpoint"]))
        self._arrivals.start()
        for body in losses:
            self._arrivals.lost(body)

    def _load(self, path: Path) -> None:
        """Take this replay's part of a checkpoint in. Learners wait for batches already, and a memory may be large."""
        self._role.clock.enter("other", deadline_s=DISK_TIMEOUT_S)
        mine = (f"{STORED}{self._role.id.index}-", "ledger.")
        checkpoint = load(path, lambda name: name.startswith(mine))
        with taking_over(path):
            self._pieces.loaded(self._store.load(checkpoint.arrays), path)
        self._role.clock.enter("transfer")

    def work(self) -> RoleGenerator:
        """For ever. Between two waits everything is done that can be."""
        while True:
            self._role.clock.enter("transfer")
            self._listen()
            self._take_priorities()
            inserted = self._take_trajectory()
            handed_out = yield from self._hand_out()
            if not (inserted or handed_out):
                yield self._for_learners if self._store.may_draw else self._for_actors

    def _listen(self) -> None:
        while (message := self._role.line.try_receive()) is not None:
            if message.kind == "lost":
                self._arrivals.lost(message.body)
            elif message.kind == "draft":
                self._save(message.body)
            else:
                raise ValueError(f"a replay was sent {message.kind!r}, which it does not know")

    def _save(self, draft: dict[str, Any]) -> None:
        """Write this replay's part of a checkpoint. Actors go on until their slots are full."""
        self._role.clock.enter("other", deadline_s=DISK_TIMEOUT_S)
        self._take_priorities()  # those of the last update
        unreleased = [channel.filled for channel in self._batches]
        body = {
            "ledger": within_limit(self._store.saved_ledger(), self._store.job.env),
            "parts": self._pieces.write(self._store.save(unreleased), draft),
            "untold_env_steps": self._store.untold(unreleased).counts["env_steps"],
        }
        self._role.line.send("ledger", body, to=_FIRST_LEARNER)
        self._role.clock.enter("transfer")

    def _take_priorities(self) -> None:
        for channel in self._priorities:
            while (message := channel.try_claim()) is not None:
                self._store.take_priorities(message)
                channel.release()

    def _take_trajectory(self) -> bool:
        if not (self._arrivals.claim() and self._store.may_insert):
            return False
        for strand, trajectory in self._arrivals.batch():
            self._store.insert(strand, trajectory, self._weights.version)
        self._arrivals.release()
        self._inserted += 1
        if self._strike is not None:
            self._strike("insert", self._inserted)
        return True

    def _hand_out(self) -> Any:
        """A batch to each learner that has room for one. Returns whether there was any."""
        handed_out = False
        for learner, channel in enumerate(self._batches):
            if self._store.may_draw and channel.writable.ready():
                unreleased = channel.filled
                batch = yield from channel.reserve()
                self._store.fill(batch, learner, unreleased)
                channel.commit()
                handed_out = True
        return handed_out


def run_replay(
    role: Role, weights: Board, trajectories: list[Channel], batches: list[Channel], priorities: list[Channel]
) -> RoleGenerator:
    """A replay's life."""
    replay = Replay(role, weights, trajectories, batches, priorities)
    yield from replay.open()
    yield from replay.work()
