"""The workflow ``allreduce``: every process acts and learns on its own share, and weights never travel.

    learner 0   | collect 0 | update 0 | collect 1 | update 1 |
                                 |                      |          gradients summed (Group)
    learner 1   | collect 0 | update 0 | collect 1 | update 1 |

DD-PPO (Wijmans et al. 2020), and the data-parallel plan of many MPI programs. It computes what ``sync`` computes for
the same environments and shards, bit for bit, with as many processes as learners and without handing trajectories over.
"""

from __future__ import annotations

from dataclasses import replace

from whorl.actors.actor import Actor
from whorl.config.schema import Config
from whorl.engines.contract import Channel, Group, GroupSpec, Plan, Role, RoleGenerator, RoleSpec
from whorl.errors import ConfigError
from whorl.job import Job
from whorl.learners.desk import Desk
from whorl.learners.learner import Learner
from whorl.learners.loop import learn
from whorl.learners.tally import tally_layout
from whorl.workflows.contract import Workflow
from whorl.workflows.own_lanes import OwnLanes
from whorl.workflows.wiring import environments_of, layout_of_trajectories, learner_ids


def run_learner(
    role: Role, contributions: Group, tally: Group, commands: list[Channel], answers: list[Channel]
) -> RoleGenerator:
    """Collect, learn together with the others, and so on."""
    job = Job.from_plain(role.job)
    learner = Learner(job, tally.rank, role.clock)
    weights = job.agent_spec.weights
    with Actor(job, role, weights, commands, answers, listen=lambda: desk.read_inbox()) as actor:
        desk = Desk(role, learner, OwnLanes(role, learner, actor, layout_of_trajectories(job)), tally)
        yield from learn(role, learner, desk, contributions, tally, weights=[])


def plan(job: Job) -> Plan:
    """Learners with the environments of their share."""
    lanes, agent, learners = job.lane_map, job.agent_spec, learner_ids(job)
    roles, channels = [], []
    for learner in learners:
        hosts, wires = environments_of(job, learner)
        endpoints: dict[str, str | tuple[str, ...]] = {
            "contributions": "contributions",
            "tally": "tally",
            "commands": tuple(wire.name for wire in wires if wire.name.startswith("commands/")),
            "answers": tuple(wire.name for wire in wires if wire.name.startswith("answers/")),
        }
        roles += [RoleSpec(learner, f"{__name__}:run_learner", endpoints, on_loss="restart_all", torch=True), *hosts]
        channels += wires
    return Plan(
        roles=tuple(roles),
        job=job.to_plain(),
        channels=tuple(channels),
        groups=(
            GroupSpec("contributions", agent.contribution, learners, lanes.shards // lanes.learners),
            GroupSpec("tally", tally_layout(job), learners),
        ),
    )


def settle(config: Config) -> Config:
    """There are as many actors as learners: they are the same processes."""
    resources = config.resources
    if resources.actors not in (1, resources.learners):
        raise ConfigError(
            f"in allreduce every learner acts, so that {resources.actors} actors and {resources.learners} learners do "
            f"not fit: use --learners {resources.actors} and leave --actors out"
        )
    return replace(config, resources=replace(resources, actors=resources.learners))


ALLREDUCE = Workflow(
    "allreduce",
    "every process acts and learns on its own share, gradients are summed, weights never travel; exact",
    plan,
    staleness="strict",
    exact=True,
    learners_act=True,
    settle=settle,
)
