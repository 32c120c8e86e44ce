"""The lockstep workflows, ``sync`` and ``overlap``: every actor's trajectory is learnt from once, in order.

    sync      actors   | collect 0 |           | collect 1 |           |
              learners |           | update 0  |           | update 1  |
              trajectory u is collected with weights version u

    overlap   actors   | collect 0 | collect 1 | collect 2 | collect 3 |
              learners |           | update 0  | update 1  | update 2  |
              trajectory u is collected with weights version u - 1: staleness exactly 1 after the first

Both are exact: the same config gives the same weights, whatever the number of actors and learners, on every engine,
after a resume and with actors lost on the way.
"""

from __future__ import annotations

from whorl.actors.actor import Actor
from whorl.engines.contract import Board, Channel, Group, Plan, Role, RoleGenerator
from whorl.job import Job
from whorl.learners.desk import Desk
from whorl.learners.intake import OneOfEach
from whorl.learners.learner import Learner
from whorl.learners.loop import learn
from whorl.workflows.contract import Workflow
from whorl.workflows.wiring import actors_to_learners


def run_actor(
    role: Role, weights: Board, out: Channel, commands: list[Channel], answers: list[Channel]
) -> RoleGenerator:
    """Collect trajectory after trajectory, each with the weights version it is due."""
    job = Job.from_plain(role.job)
    lag = _lag(job)
    with Actor(job, role, weights.layout, commands, answers) as actor:
        number = yield from actor.begin()
        while True:
            version = max(0, number - lag)
            yield from weights.wait_for(version)
            weights.read(actor.weights, version)
            trajectory = yield from out.reserve()
            yield from actor.fill(trajectory, version, number)
            out.commit()
            number += 1


def run_learner(
    role: Role, trajectories: list[Channel], contributions: Group, tally: Group, weights: list[Board]
) -> RoleGenerator:
    """Take one trajectory of each actor, learn from all of them together, publish, and so on."""
    job = Job.from_plain(role.job)
    learner = Learner(job, tally.rank, role.clock, keeps_previous=_lag(job) > 0)
    desk = Desk(role, learner, OneOfEach(role, learner, trajectories), tally)
    yield from learn(role, learner, desk, contributions, tally, weights, _lag(job))


def plan(job: Job) -> Plan:
    """The wiring of the diagram above: one trajectory is learnt from while the next is collected."""
    return actors_to_learners(job, f"{__name__}:run_actor", f"{__name__}:run_learner", slots=2)


def _lag(job: Job) -> int:
    return 1 if job.config.workflow.name == "overlap" else 0


SYNC = Workflow(
    "sync",
    "all actors collect with the same weights, then the learners update, then all go on; exact",
    plan,
    staleness="strict",
    exact=True,
)
OVERLAP = Workflow(
    "overlap",
    "as sync, but the next collection runs while the last is learnt: staleness exactly 1; exact",
    plan,
    staleness="strict",
    exact=True,
)
