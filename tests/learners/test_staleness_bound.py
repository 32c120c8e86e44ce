"""What an actor's slow strand hands over may be staler than what came before it: it is dropped, and nothing else is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from whorl.config.schema import Resources
from whorl.engines.contract import ChannelSpec, RoleId
from whorl.engines.inline.clock import InlineClock
from whorl.engines.inline.endpoints import ChannelSlots, InlineChannel
from whorl.learners.first_come import FirstCome
from whorl.learners.queues import Queues
from whorl.trajectory.lanes import LaneMap
from whorl.types import Arrays, Field, Layout

TRAJECTORY = Layout(
    tuple(Field(name, (1,), "int64") for name in ("strand", "number", "incarnation", "env_steps", "version"))
)
BOUND, NEEDED, SLOTS = 2, 3, 4


class Learner:
    """As much of one as an intake asks for; at update 10."""

    def __init__(self) -> None:
        settings = SimpleNamespace(max_staleness=BOUND)
        run = SimpleNamespace(seed=1, record_schedule=False)
        resources = Resources(actors=1, envs_per_actor=3)
        self.job = SimpleNamespace(
            lane_map=LaneMap.from_resources(resources, NEEDED, envs_per_strand=1),
            config=SimpleNamespace(workflow=settings, run=run),
        )
        self.rank, self.updates = 0, 10
        self.actors = self.group = range(1)
        self.ledgers: dict[int, Any] = {0: SimpleNamespace(number=0)}
        self.dropped: list[int] = []

    def staleness(self, trajectory: Arrays) -> int:
        return self.updates - int(trajectory["version"].min())

    def drop(self, strand: int, trajectory: Arrays) -> None:
        self.dropped.append(int(trajectory["version"][0]))


def channel() -> tuple[InlineChannel, InlineChannel]:
    """Writer and reader."""
    slots = ChannelSlots(ChannelSpec("trajectories/0", TRAJECTORY, SLOTS, RoleId("actor", 0), (RoleId("learner", 0),)))
    return InlineChannel(slots, InlineClock()), InlineChannel(slots, InlineClock())


def hand_over(out: InlineChannel, strand: int, version: int) -> None:
    """A trajectory that fits what an actor was told which has not been told anything."""
    try:
        next(out.reserve())
    except StopIteration as done:
        slot: Arrays = done.value
        slot["strand"][0], slot["version"][0] = strand, version
        out.commit()
    else:
        raise AssertionError("no slot is free: the learner holds some that it has dropped")


def checked(intake: FirstCome | Queues, learner: Learner, out: InlineChannel) -> None:
    """Two strands are quick; one is slow, and what it hands over is too stale by then."""
    hand_over(out, 0, version=9)
    assert not intake.claim()
    for slow in (5, 6, 7):
        hand_over(out, 2, slow)
        assert not intake.claim()
    hand_over(out, 1, version=8)
    hand_over(out, 0, version=10)
    assert intake.claim()
    assert learner.dropped == [5, 6, 7]
    hand_over(out, 1, version=10)  # into a slot that is free
    assert [(strand, int(trajectory["version"][0])) for strand, trajectory in intake.batch()] == [
        (0, 9),
        (1, 8),
        (0, 10),
    ]
    intake.release()
    assert out.filled == 1


def test_in_any_order() -> None:
    learner, (out, reader) = Learner(), channel()
    role = SimpleNamespace(line=SimpleNamespace(send=lambda *_, **__: None), incarnation=0)
    checked(FirstCome(role, learner, [reader]), learner, out)  # type: ignore[arg-type]


def test_in_queues() -> None:
    learner, (out, reader) = Learner(), channel()
    checked(Queues(learner, [reader]), learner, out)  # type: ignore[arg-type]
