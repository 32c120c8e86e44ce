"""The parts of a plan that workflows share: actors with their environments, learners, and what lies between them."""

from __future__ import annotations

from dataclasses import replace

from whorl.config.actors_schedule import actors_at
from whorl.engines.contract import BoardSpec, ChannelSpec, GroupSpec, Plan, RoleId, RoleSpec
from whorl.envs.hosted import host_layouts
from whorl.job import Job
from whorl.learners.tally import tally_layout
from whorl.trajectory.layout import trajectory_layout
from whorl.types import Layout


def learner_ids(job: Job) -> tuple[RoleId, ...]:
    """The learners of a job."""
    return tuple(RoleId("learner", i) for i in range(job.lane_map.learners))


def actor_ids(job: Job) -> tuple[RoleId, ...]:
    """The actors of a job."""
    return tuple(RoleId("actor", i) for i in range(job.lane_map.actors))


def layout_of_trajectories(job: Job) -> Layout:
    """What an actor hands over."""
    agent = job.agent_spec
    return trajectory_layout(
        job.env,
        rows=agent.rows,
        lanes=job.lane_map.envs_per_strand,
        fields=agent.fields,
        state=agent.state,
        discounted_return=agent.wants_discounted_return,
    )


def actors_to_learners(job: Job, run_actor: str, run_learner: str, slots: int) -> Plan:
    """Every actor hands its trajectories to its learner through ``slots`` slots, and the first learner shows the
    weights to all actors.

             trajectories/i (Channel)                  contributions, tally (Group)
        actor i ------------------------> learner l <------------------------------> other learners
           ^                                  |
           +---------- weights (Board) -------+ learner 0
    """
    lanes, agent, learners, actors = job.lane_map, job.agent_spec, learner_ids(job), actor_ids(job)
    acting = job.acting(actors_at(job.config.resources, 0))
    roles = [
        RoleSpec(
            learner,
            run_learner,
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
    trajectory = layout_of_trajectories(job)
    channels = [
        ChannelSpec(f"trajectories/{i}", trajectory, slots, actors[i], (learners[lanes.learner_of_actor(i)],))
        for i in range(lanes.actors)
    ]
    for actor in actors:
        roles.append(
            RoleSpec(
                actor,
                run_actor,
                {
                    "weights": "weights",
                    "out": f"trajectories/{actor.index}",
                    "commands": tuple(f"commands/{lane}" for lane in _hosted_lanes(job, actor)),
                    "answers": tuple(f"answers/{lane}" for lane in _hosted_lanes(job, actor)),
                },
                notify=(learners[lanes.learner_of_actor(actor.index)],),
                torch=agent.acting == "torch",
                parked=actor.index not in acting,
            )
        )
        hosts, wires = environments_of(job, actor)
        roles += (replace(host, parked=actor.index not in acting) for host in hosts)
        channels += wires
    return Plan(
        roles=tuple(roles),
        job=job.to_plain(),
        channels=tuple(channels),
        boards=(BoardSpec("weights", agent.weights, learners[0], actors),),
        groups=(
            GroupSpec("contributions", agent.contribution, learners, lanes.shards // lanes.learners),
            GroupSpec("tally", tally_layout(job), learners),
        ),
    )


def environments_of(job: Job, actor: RoleId) -> tuple[list[RoleSpec], list[ChannelSpec]]:
    """The processes of an actor's environments, where they have processes of their own."""
    commands, answers = host_layouts(job.env)
    roles, channels = [], []
    for lane in _hosted_lanes(job, actor):
        host = RoleId("env", lane)
        wires = {"commands": f"commands/{lane}", "answers": f"answers/{lane}"}
        roles.append(RoleSpec(host, "whorl.actors.host:run_env", wires, notify=(actor,), beside=actor))
        channels.append(ChannelSpec(f"commands/{lane}", commands, 2, actor, (host,)))
        channels.append(ChannelSpec(f"answers/{lane}", answers, 2, host, (actor,)))
    return roles, channels


def _hosted_lanes(job: Job, actor: RoleId) -> range:
    return job.lane_map.lanes_of_actor(actor.index) if job.hosted else range(0)
