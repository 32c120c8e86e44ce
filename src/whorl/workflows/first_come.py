"""The workflow ``async``: nobody waits for anybody.

    actor 0    | collect | collect | collect | collect | collect |        each with the newest weights at its beginning
    actor 1    |  collect   |  collect   |  collect   |  collect
    learners      | update | update | update | update | update            from whatever has come, first come first

An actor hands a trajectory over and goes on with the newest weights. Learners take as many trajectories for an update
as ``workflow.trajectories_per_update`` says, of whoever has them; several learners sum their gradients, so that all
hold the same weights. What has become too stale (``workflow.max_staleness``) is dropped and counted.
"""

from __future__ import annotations

from collections.abc import Generator

from whorl.actors.actor import Actor
from whorl.config.actors_schedule import fewest_actors
from whorl.engines.contract import Board, Channel, Group, Plan, Role, RoleGenerator, Wait
from whorl.errors import ConfigError
from whorl.job import Job
from whorl.learners.desk import Desk
from whorl.learners.first_come import FirstCome, Scheduled
from whorl.learners.learner import Learner
from whorl.learners.loop import learn
from whorl.learners.schedule import Schedule, check_schedule
from whorl.trajectory.lanes import LaneMap
from whorl.workflows.contract import Workflow
from whorl.workflows.wiring import actors_to_learners

MOST_SLOTS = 128
"""Of one channel, on any engine."""
_NEVER = 2**62


def slots(job: Job) -> int:
    """Of each actor, for each of its strands: one that is filled, one that waits for its batch to be complete, one that
    is learnt from. Where few actors fill a large batch, as many as the batch has of each, and one to go on with: for a
    quarter of the actors, or as few as the schedule comes to. Room for fewer would be memory that nobody uses."""
    lanes = job.lane_map
    planned = fewest_actors(job.config.resources)
    few = min(planned, max(lanes.learners, lanes.actors // 4))
    found = min(MOST_SLOTS, max(3 * lanes.strands_per_actor, 1 + _share(lanes, few)))
    if found < _share(lanes, planned):
        fitting = planned // lanes.learners * lanes.learners * MOST_SLOTS
        raise ConfigError(
            f"an update takes {lanes.trajectories} trajectories of each learner's actors, and {planned} actors have "
            f"room for fewer: use more actors, or workflow.trajectories_per_update={fitting}"
        )
    return found


def _share(lanes: LaneMap, acting: int) -> int:
    """What each of so many actors has to hold of a batch."""
    return -(-lanes.trajectories // max(1, acting // lanes.learners))


def fewest_acting(job: Job) -> int:
    """Whose slots hold a batch of every learner."""
    lanes = job.lane_map
    return lanes.learners * -(-lanes.trajectories // slots(job))


def run_actor(
    role: Role, weights: Board, out: Channel, commands: list[Channel], answers: list[Channel]
) -> RoleGenerator:
    """Collect trajectory after trajectory, each with the newest weights."""
    job = Job.from_plain(role.job)
    with Actor(job, role, weights.layout, commands, answers) as actor:
        number = yield from actor.begin()
        yield from weights.wait_for(0)
        if actor.has_strands:
            yield from actor.stream(out, weights)
        schedule = Schedule(job) if job.config.run.replay_schedule else None
        while actor.stays():
            trajectory = yield from out.reserve()
            if schedule is None:
                version = weights.read(actor.weights)
            else:
                version = yield from _scheduled_weights(schedule, weights, actor, role.id.index, number)
            yield from actor.fill(trajectory, version, number)
            out.commit()
            number += 1


def _scheduled_weights(
    schedule: Schedule, weights: Board, actor: Actor, index: int, number: int
) -> Generator[Wait, None, int]:
    """The version that the recorded run collected this trajectory with."""
    version = schedule.version(index, number)
    yield from weights.wait_for(_NEVER if version is None else version)
    return weights.read(actor.weights, version)


def run_learner(
    role: Role, trajectories: list[Channel], contributions: Group, tally: Group, weights: list[Board]
) -> RoleGenerator:
    """Learn from trajectories as they come."""
    job = Job.from_plain(role.job)
    learner = Learner(job, tally.rank, role.clock, in_order=False)
    intake = (Scheduled if job.config.run.replay_schedule else FirstCome)(role, learner, trajectories)
    desk = Desk(role, learner, intake, tally)
    yield from learn(role, learner, desk, contributions, tally, weights)


def plan(job: Job) -> Plan:
    """Actors, learners, and room for the actors to go on."""
    if job.config.run.replay_schedule:
        check_schedule(job)
    return actors_to_learners(job, f"{__name__}:run_actor", f"{__name__}:run_learner", slots(job))


ASYNC = Workflow(
    "async",
    "actors hand trajectories over and go on with the newest weights; learners take them as they come",
    plan,
    staleness="correctable",
    exact=False,
    in_order=False,
    has_schedule=True,
    has_strands=True,
    fewest_acting=fewest_acting,
)
