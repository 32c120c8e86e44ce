"""The workflow ``gradients``: actors contribute gradients, and a parameter server applies them as they come.

    actor 0    | collect, gradient | collect, gradient | ...            each with the newest weights at its beginning
    actor 1    |   collect, gradient   |   collect, gradient   | ...
    learner       ^ apply    ^ apply ^ apply    ^ apply                 one step for each, whoever it is of

A3C (Mnih et al. 2016). Trajectories stay where they are; what travels is a gradient, which is some updates old when it
is applied. The data was fresh when it was computed, so that agents need not correct for anything.
"""

from __future__ import annotations

from dataclasses import replace

from whorl.actors.actor import Actor
from whorl.agents.contract import AgentSpec
from whorl.config.schema import Config
from whorl.engines.contract import Board, Channel, Group, Plan, Role, RoleGenerator
from whorl.errors import ConfigError
from whorl.job import Job
from whorl.learners.desk import Desk
from whorl.learners.first_come import FirstCome
from whorl.learners.loop import learn
from whorl.learners.parameter_server import Contributor, ParameterServer, digest_layout
from whorl.trajectory.layout import copy_last_rows
from whorl.workflows.contract import Workflow
from whorl.workflows.wiring import actors_to_learners, layout_of_trajectories

SLOTS = 2
"""Of each actor: one that is filled, and one that waits its turn."""


def run_actor(
    role: Role, weights: Board, out: Channel, commands: list[Channel], answers: list[Channel]
) -> RoleGenerator:
    """Collect with the newest weights, and send the gradient."""
    job = Job.from_plain(role.job)
    layout = layout_of_trajectories(job)
    trajectory = layout.views(layout.allocate())
    contributor = Contributor(job)
    with Actor(job, role, weights.layout, commands, answers) as actor:
        number = yield from actor.begin()
        yield from weights.wait_for(0)
        while actor.stays():
            digest = yield from out.reserve()
            version = weights.read(actor.weights)
            yield from actor.fill(trajectory, version, number)
            role.clock.enter("learning")
            contributor.contribute(actor.weights, trajectory, digest)
            role.clock.enter("transfer")
            copy_last_rows(trajectory, digest)
            out.commit()
            number += 1


def run_learner(
    role: Role, trajectories: list[Channel], contributions: Group, tally: Group, weights: list[Board]
) -> RoleGenerator:
    """Apply gradients as they come."""
    server = ParameterServer(Job.from_plain(role.job), tally.rank, role.clock, in_order=False)
    desk = Desk(role, server, FirstCome(role, server, trajectories), tally)
    yield from learn(role, server, desk, contributions, tally, weights)


def plan(job: Job) -> Plan:
    """As for trajectories, but with their digests; actors compute as learners do."""
    whole = actors_to_learners(job, f"{__name__}:run_actor", f"{__name__}:run_learner", SLOTS)
    digest, parameters = digest_layout(job), job.agent_spec.parameters
    assert parameters is not None
    return replace(
        whole,
        boards=tuple(replace(board, layout=parameters) for board in whole.boards),
        roles=tuple(replace(spec, torch=spec.torch or spec.id.kind == "actor") for spec in whole.roles),
        channels=tuple(
            replace(spec, layout=digest) if spec.name.startswith("trajectories/") else spec for spec in whole.channels
        ),
    )


def settle(config: Config) -> Config:
    """One gradient at a time, and one server that applies it."""
    if config.resources.learners != 1:
        raise ConfigError(
            f"gradients has one learner, which applies what actors contribute, and not {config.resources.learners}: "
            "use more --actors instead, or --workflow async for several learners"
        )
    if config.workflow.trajectories_per_update > 1:
        raise ConfigError("gradients applies one gradient at a time: leave out workflow.trajectories_per_update")
    return replace(config, workflow=replace(config.workflow, trajectories_per_update=1))


def check(config: Config, agent: AgentSpec) -> None:
    """The update must be one gradient step, of numbers that an actor has."""
    if agent.gradient_steps != 1 or agent.parameters is None:
        raise ConfigError(
            f"{config.agent_name} takes several steps for each batch, or learns from a replay, and in gradients an "
            "update is one gradient: use a2c (the alias a3c does) or impala, or --workflow async"
        )
    if agent.wants_discounted_return:
        raise ConfigError(
            "in gradients no process sees all trajectories, and statistics of them cannot be kept: leave out "
            "agent.normalise_observations and agent.normalise_rewards, or use --workflow async"
        )


GRADIENTS = Workflow(
    "gradients",
    "actors contribute gradients, a parameter server applies them as they come (A3C)",
    plan,
    staleness="strict",
    exact=False,
    in_order=False,
    settle=settle,
    check=check,
)
