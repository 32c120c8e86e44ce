"""The lockstep workflows, ``sync`` and ``overlap``: every actor's trajectory is learnt from once, in order.

    sync      actors   | collect 0 |           | collect 1 |           |
              learners |           | update 0  |           | update 1  |
              trajectory u is collected with weights version u

    overlap   actors   | collect 0 | collect 1 | collect 2 | collect 3 |
              learners |           | update 0  | update 1  | update 2  |
              trajectory u is collected with weights version u - 1: staleness exactly 1 after the first

Both are exact: the same config gives the same weights, whatever the number of actors and learners, on every engine,
after a resume and with actors lost on the way.

         trajectories/i (Channel)                  contributions, tally (Group)
    actor i ------------------------> learner l <------------------------------> other learners
       ^                                  |
       +---------- weights (Board) -------+ learner 0
"""

from __future__ import annotations

from whorl.actors.actor import Actor
from whorl.engines.contract import (
    Board,
    BoardSpec,
    Channel,
    ChannelSpec,
    Group,
    GroupSpec,
    Plan,
    Role,
    RoleGenerator,
    RoleId,
    RoleSpec,
)
from whorl.engines.faults import fault_hook
from whorl.envs.hosted import host_layouts
from whorl.job import Job
from whorl.learners.desk import Desk
from whorl.learners.learner import Learner, tally_layout
from whorl.trajectory.layout import trajectory_layout
from whorl.workflows.contract import Workflow


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
    learner = Learner(job, tally.rank, role.clock)
    desk = Desk(role, learner, trajectories, tally)
    strike = fault_hook(role.id, role.incarnation)
    yield from desk.open()
    for board in weights:  # the first learner's; the others have none
        if _lag(job) and learner.updates:
            board.publish(learner.updates - 1, learner.previous_weights)
        board.publish(learner.updates, learner.learning.weights())
    desk.start_actors()
    while not learner.done:
        batch = yield from desk.gather()
        if batch is None:
            break  # asked to stop, and saved
        yield from learner.update(batch, contributions, tally)
        if strike is not None:
            strike("update", learner.updates)
        desk.release()
        for board in weights:
            board.publish(learner.updates, learner.learning.weights())
        desk.report()
    yield from desk.close()


def plan(job: Job) -> Plan:
    """The wiring of the diagram above."""
    lanes, agent, env = job.lane_map, job.agent_spec, job.env
    learners = tuple(RoleId("learner", i) for i in range(lanes.learners))
    actors = tuple(RoleId("actor", i) for i in range(lanes.actors))
    trajectory = trajectory_layout(
        env,
        rows=agent.rows,
        tail_rows=agent.tail_rows,
        lanes=lanes.envs_per_actor,
        fields=agent.fields,
        state=agent.state,
    )
    roles = [
        RoleSpec(
            learner,
            "whorl.workflows.lockstep:run_learner",
            {
                "trajectories": tuple(f"trajectories/{i}" for i in lanes.actors_of_learner(learner.index)),
                "contributions": "contributions",
                "tally": "tally",
                "weights": ("weights",) if learner.index == 0 else (),
            },
            on_loss="restart_all",
            torch=True,
        )
        for learner in learners
    ]
    channels = [
        ChannelSpec(f"trajectories/{i}", trajectory, 2, actors[i], (learners[lanes.learner_of_actor(i)],))
        for i in range(lanes.actors)
    ]
    hosted = range(lanes.lanes) if job.hosted else range(0)
    for actor in actors:
        own = [lane for lane in lanes.lanes_of_actor(actor.index) if lane in hosted]
        roles.append(
            RoleSpec(
                actor,
                "whorl.workflows.lockstep:run_actor",
                {
                    "weights": "weights",
                    "out": f"trajectories/{actor.index}",
                    "commands": tuple(f"commands/{lane}" for lane in own),
                    "answers": tuple(f"answers/{lane}" for lane in own),
                },
                notify=(learners[lanes.learner_of_actor(actor.index)],),
                torch=agent.acting == "torch",
            )
        )
    commands, answers = host_layouts(env)
    for lane in hosted:
        host, actor = RoleId("env", lane), actors[lane // lanes.envs_per_actor]
        roles.append(
            RoleSpec(
                host,
                "whorl.actors.host:run_env",
                {"commands": f"commands/{lane}", "answers": f"answers/{lane}"},
                notify=(actor,),
            )
        )
        channels.append(ChannelSpec(f"commands/{lane}", commands, 2, actor, (host,)))
        channels.append(ChannelSpec(f"answers/{lane}", answers, 2, host, (actor,)))
    shards_each = lanes.shards // lanes.learners
    return Plan(
        roles=tuple(roles),
        job=job.to_plain(),
        channels=tuple(channels),
        boards=(BoardSpec("weights", agent.weights, learners[0], actors),),
        groups=(
            GroupSpec("contributions", agent.contribution, learners, shards_each),
            GroupSpec("tally", tally_layout(agent.rows, lanes.lanes), learners),
        ),
    )


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
