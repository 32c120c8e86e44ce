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
from whorl.config.actors_schedule import fewest_actors
from whorl.config.schema import Config
from whorl.engines.contract import Board, BoardSpec, Channel, ChannelSpec, Group, Plan, Role, RoleGenerator, RoleSpec
from whorl.errors import ConfigError
from whorl.job import Job
from whorl.learners.desk import Desk
from whorl.learners.loop import learn
from whorl.learners.owned_actors import whereabouts_layout
from whorl.learners.queues import Queues
from whorl.learners.shared import SharedLearner
from whorl.trajectory.layout import copy_last_rows
from whorl.types import Arrays
from whorl.workflows.contract import PACING, Workflow
from whorl.workflows.first_come import MOST_SLOTS
from whorl.workflows.wiring import actor_ids, actors_to_learners, layout_of_trajectories, learner_ids

USUAL_SLOTS = 3
"""Of each strand of an actor: one that is filled, one that waits, one that is learnt from."""


def run_actor(
    role: Role, weights: Board, out: Channel, whereabouts: list[Board], commands: list[Channel], answers: list[Channel]
) -> RoleGenerator:
    """Collect with the newest weights, write down where the lanes stand, hand over, and so on."""
    job = Job.from_plain(role.job)
    boards = dict(zip(job.lane_map.strands_of_actor(role.id.index), whereabouts, strict=True))
    buffer = whereabouts[0].layout.allocate()
    stands = whereabouts[0].layout.views(buffer)

    def write_down(trajectory: Arrays) -> None:
        copy_last_rows(trajectory, stands)
        stands["hand_overs"][0] = out.handed_over + 1
        boards[int(trajectory["strand"][0])].publish(int(trajectory["number"][0]), buffer)

    with Actor(job, role, weights.layout, commands, answers) as actor:
        number = yield from actor.begin()
        yield from weights.wait_for(0)
        if actor.has_strands:
            yield from actor.stream(out, weights, write_down)
        while actor.stays():
            trajectory = yield from out.reserve()
            version = weights.read(actor.weights)
            yield from actor.fill(trajectory, version, number)
            write_down(trajectory)  # first: what is handed over must never be collected again
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
    learner = SharedLearner(job, tally.rank, role, whereabouts)
    desk = Desk(role, learner, Queues(learner, trajectories), tally)
    yield from learn(role, learner, desk, contributions, tally, weights)


def plan(job: Job) -> Plan:
    """Every queue is open to all learners; where an actor stands is for its owner to know."""
    whole = actors_to_learners(job, f"{__name__}:run_actor", f"{__name__}:run_learner", slots(job))
    lanes, learners = job.lane_map, learner_ids(job)
    layout = whereabouts_layout(job, layout_of_trajectories(job))
    boards = [
        BoardSpec(f"whereabouts/{strand}", layout, actor, (learners[lanes.learner_of_actor(actor.index)],))
        for actor in actor_ids(job)
        for strand in lanes.strands_of_actor(actor.index)
    ]
    everybody = tuple(f"trajectories/{actor.index}" for actor in actor_ids(job))

    def opened(spec: ChannelSpec) -> ChannelSpec:
        """Its owner comes first: that is where the queue lies on engines that must choose."""
        (owner,) = spec.readers
        helpers = tuple(learner for learner in learners if learner != owner)
        return replace(spec, readers=(owner, *helpers), one_sided=True)

    def rewired(spec: RoleSpec) -> RoleSpec:
        own = tuple(board.name for board in boards if spec.id in (board.writer, *board.readers))
        if not own:
            return spec  # an environment's
        more = {"whereabouts": own, "trajectories": everybody} if spec.id in learners else {"whereabouts": own}
        return replace(spec, endpoints={**spec.endpoints, **more})

    return replace(
        whole,
        roles=tuple(rewired(spec) for spec in whole.roles),
        channels=tuple(opened(spec) if spec.name in everybody else spec for spec in whole.channels),
        boards=(*whole.boards, *boards),
    )


def slots(job: Job) -> int:
    """Of each queue. Together they must be able to hold what an update learns from, when few actors act as well."""
    lanes, given = job.lane_map, job.config.workflow.slots
    taken, planned = lanes.learners * lanes.trajectories, fewest_actors(job.config.resources)
    few = min(planned, max(1, lanes.actors // 4))
    wanted = (given or USUAL_SLOTS) * lanes.strands_per_actor
    found = min(MOST_SLOTS, wanted if given else max(wanted, 1 + -(-taken // few)))
    room = -(-taken // planned)
    if found < room:
        text = f"{planned} queues of {found} slots cannot hold the {taken} trajectories of an update: use "
        fitting = f"--set workflow.slots={-(-room // lanes.strands_per_actor)}"
        raise ConfigError(text + (fitting if room <= MOST_SLOTS else "fewer of them, or more actors"))
    return found


def fewest_acting(job: Job) -> int:
    """Whose queues hold what an update learns from."""
    lanes = job.lane_map
    return max(lanes.learners, -(-lanes.learners * lanes.trajectories // slots(job)))


def settle(config: Config) -> Config:
    """A group for every learner."""
    resources = config.resources
    if resources.learners > resources.actors:
        raise ConfigError(
            f"{resources.learners} learners cannot each have a group of {resources.actors} actors: use "
            f"--actors {resources.learners}, or fewer learners"
        )
    return config


QUEUE = Workflow(
    "queue",
    "each actor has a bounded queue; learners take from their own group's, and help others when it is empty",
    plan,
    staleness="correctable",
    exact=False,
    in_order=False,
    has_strands=True,
    even_groups=False,
    fewest_acting=fewest_acting,
    settings=(*PACING, "slots"),
    settle=settle,
)
