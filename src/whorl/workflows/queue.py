"""The workflow ``queue``: each actor has a bounded queue, and learners take from their own group's, or help others.

    actor 0    | collect | collect | collect | ...   queue 0 [ ][ ][ ]  \\  group of learner 0   | update | update |
    actor 1    |  collect   |  collect   | ...       queue 1 [ ][ ][ ]  /
    actor 2    | collect | collect | collect | ...   queue 2 [ ][ ][ ]  \\  group of learner 1   | update | update |
    actor 3    |  collect   |  collect   | ...       queue 3 [ ][ ][ ]  /

EXARL's queue workflow. An actor goes on until its queue is full, and then waits. Every update needs a batch of each
learner, so that one without data would stop them all: a learner whose group has nothing (its actors are slow, lost or
gone) takes from any queue that has. Which have is the activity bitmap; here the queues themselves show it.
"""

from __future__ import annotations

from dataclasses import replace

from whorl.actors.actor import Actor
from whorl.config.schema import Config
from whorl.engines.contract import Board, BoardSpec, Channel, Group, Plan, Role, RoleGenerator
from whorl.errors import ConfigError
from whorl.job import Job
from whorl.learners.desk import Desk
from whorl.learners.loop import learn
from whorl.learners.owned_actors import whereabouts_layout
from whorl.learners.queues import Queues
from whorl.learners.shared import SharedLearner
from whorl.trajectory.layout import copy_last_rows
from whorl.workflows.contract import Workflow
from whorl.workflows.window import with_even_batches
from whorl.workflows.wiring import actor_ids, actors_to_learners, layout_of_trajectories, learner_ids, shared_out

FEWEST_SLOTS = 3
"""Unless somebody asks for fewer: one that is filled, one that waits, one that is learnt from."""


def run_actor(
    role: Role, weights: Board, out: Channel, whereabouts: Board, commands: list[Channel], answers: list[Channel]
) -> RoleGenerator:
    """Collect with the newest weights, write down where the lanes stand, hand over, and so on."""
    job = Job.from_plain(role.job)
    buffer = whereabouts.layout.allocate()
    stands = whereabouts.layout.views(buffer)
    with Actor(job, role, weights.layout, commands, answers) as actor:
        number = yield from actor.begin()
        yield from weights.wait_for(0)
        while True:
            trajectory = yield from out.reserve()
            version = weights.read(actor.weights)
            yield from actor.fill(trajectory, version, number)
            copy_last_rows(trajectory, stands)
            stands["hand_overs"][0] = out.handed_over + 1
            whereabouts.publish(number, buffer)  # first: what is handed over must never be collected again
            out.commit()
            number += 1


def run_learner(
    role: Role,
    trajectories: list[Channel],
    whereabouts: list[Board],
    contributions: Group,
    tally: Group,
    weights: list[Board],
) -> RoleGenerator:
    """Learn from what the queues hold."""
    job = Job.from_plain(role.job)
    boards = dict(zip(job.lane_map.actors_of_learner(tally.rank), whereabouts, strict=True))
    learner = SharedLearner(job, tally.rank, role, boards)
    desk = Desk(role, learner, Queues(learner, dict(enumerate(trajectories))), tally)
    yield from learn(role, learner, desk, contributions, tally, weights)


def plan(job: Job) -> Plan:
    """Every queue is open to all learners; where an actor stands is for its owner to know."""
    whole = actors_to_learners(job, f"{__name__}:run_actor", f"{__name__}:run_learner", job.config.workflow.slots)
    lanes, learners = job.lane_map, learner_ids(job)
    whole = shared_out(whole, lambda _: range(lanes.actors))
    layout = whereabouts_layout(job, layout_of_trajectories(job))
    boards = {
        actor: BoardSpec(f"whereabouts/{actor.index}", layout, actor, (learners[lanes.learner_of_actor(actor.index)],))
        for actor in actor_ids(job)
    }
    roles = []
    for spec in whole.roles:
        if spec.id in boards:
            spec = replace(spec, endpoints={**spec.endpoints, "whereabouts": boards[spec.id].name})
        elif spec.id in learners:
            own = tuple(board.name for board in boards.values() if spec.id in board.readers)
            spec = replace(spec, endpoints={**spec.endpoints, "whereabouts": own})
        roles.append(spec)
    return replace(
        whole,
        roles=tuple(roles),
        channels=tuple(
            replace(spec, readers=learners) if spec.name.startswith("trajectories/") else spec
            for spec in whole.channels
        ),
        boards=(*whole.boards, *boards.values()),
    )


def settle(config: Config) -> Config:
    """A group for every learner, and room for a batch in the queues."""
    resources = config.resources
    if resources.learners > resources.actors:
        raise ConfigError(
            f"{resources.learners} learners cannot each have a group of {resources.actors} actors: use "
            f"--actors {resources.learners}, or fewer learners"
        )
    config = with_even_batches(config)
    room = -(-config.workflow.trajectories_per_update // resources.actors)
    slots = config.workflow.slots or max(FEWEST_SLOTS, 1 + room)
    if slots < room:
        raise ConfigError(
            f"{resources.actors} queues of {slots} slots cannot hold the {config.workflow.trajectories_per_update} "
            f"trajectories of an update: use --set workflow.slots={room}"
        )
    return replace(config, workflow=replace(config.workflow, slots=slots))


QUEUE = Workflow(
    "queue",
    "each actor has a bounded queue; learners take from their own group's, and help others when it is empty",
    plan,
    staleness="correctable",
    exact=False,
    in_order=False,
    even_groups=False,
    settle=settle,
)
