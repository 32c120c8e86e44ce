"""The workflow ``window``: each actor shows its newest trajectory in a window, and learners look when they have time.

    actor 0    | collect | collect | collect | collect |        each overwrites the window of the actor
    window 0             0---------0---------0---------0---
    learners      | update  |   update  |  update  |            each from windows that hold something new

EXARL's one-sided workflow. Nobody waits for anybody: what no learner has read is overwritten, and counted as dropped; a
learner that finds nothing new sleeps until a window changes. ``workflow.choice`` says whose windows a learner reads:
``owned`` ones, each by one learner, or ``random`` ones among all. Several learners that draw at random from the same
windows read some trajectories twice: 1 - (A/L)(1 - (1 - 1/A)^L) of them, with L draws among A windows.
"""

from __future__ import annotations

from dataclasses import replace

from whorl.actors.actor import Actor
from whorl.config.schema import Config
from whorl.engines.contract import Board, BoardSpec, Channel, Group, Plan, Role, RoleGenerator, RoleId, RoleSpec
from whorl.engines.waits import TURN
from whorl.errors import ConfigError
from whorl.job import Job
from whorl.learners.desk import Desk
from whorl.learners.loop import learn
from whorl.learners.windows import WindowLearner, Windows, window_tally
from whorl.workflows.contract import PACING, Workflow
from whorl.workflows.wiring import actor_ids, actors_to_learners, layout_of_trajectories, learner_ids


def run_actor(role: Role, weights: Board, out: Board, commands: list[Channel], answers: list[Channel]) -> RoleGenerator:
    """Collect with the newest weights, show it, and so on; never wait."""
    job = Job.from_plain(role.job)
    buffer = out.layout.allocate()
    trajectory = out.layout.views(buffer)
    with Actor(job, role, weights.layout, commands, answers) as actor:
        number = yield from actor.begin()
        yield from weights.wait_for(0)
        while actor.stays():
            version = weights.read(actor.weights)
            yield from actor.fill(trajectory, version, number)
            out.publish(number, buffer)
            number += 1
            yield TURN  # an engine with one thread would run nobody else


def run_learner(
    role: Role, trajectories: list[Board], contributions: Group, tally: Group, weights: list[Board]
) -> RoleGenerator:
    """Learn from whatever the windows show."""
    job = Job.from_plain(role.job)
    windows = dict(zip(read_by(job, tally.rank), trajectories, strict=True))
    learner = WindowLearner(job, tally.rank, role, windows)
    desk = Desk(role, learner, Windows(learner, windows), tally)
    yield from learn(role, learner, desk, contributions, tally, weights)


def plan(job: Job) -> Plan:
    """Windows in the place of channels, each with those readers that may choose it."""
    whole = actors_to_learners(job, f"{__name__}:run_actor", f"{__name__}:run_learner", slots=1)
    learners, layout = learner_ids(job), layout_of_trajectories(job)
    windows = (
        BoardSpec(f"trajectories/{actor.index}", layout, actor, _readers_of(job, actor, learners))
        for actor in actor_ids(job)
    )

    def rewired(spec: RoleSpec) -> RoleSpec:
        chosen_from = tuple(f"trajectories/{actor}" for actor in read_by(job, spec.id.index))
        is_learner = spec.id in learners
        return replace(spec, endpoints={**spec.endpoints, "trajectories": chosen_from}) if is_learner else spec

    return replace(
        whole,
        roles=tuple(rewired(spec) for spec in whole.roles),
        channels=tuple(spec for spec in whole.channels if not spec.name.startswith("trajectories/")),
        boards=(*whole.boards, *windows),
        groups=tuple(
            replace(spec, layout=window_tally(job)) if spec.name == "tally" else spec for spec in whole.groups
        ),
    )


def read_by(job: Job, learner: int) -> range:
    """The actors whose windows a learner chooses from."""
    lanes = job.lane_map
    return lanes.actors_of_learner(learner) if job.config.workflow.choice == "owned" else range(lanes.actors)


def _readers_of(job: Job, actor: RoleId, learners: tuple[RoleId, ...]) -> tuple[RoleId, ...]:
    return tuple(learner for learner in learners if actor.index in read_by(job, learner.index))


def settle(config: Config) -> Config:
    """Where windows are owned, there must be one for every learner."""
    if config.workflow.choice == "owned" and config.resources.learners > config.resources.actors:
        raise ConfigError(
            f"{config.resources.learners} learners cannot each own one of {config.resources.actors} windows: use "
            f"--actors {config.resources.learners}, or --set workflow.choice=random"
        )
    return config


WINDOW = Workflow(
    "window",
    "each actor's newest trajectory lies in a window and is overwritten; learners read when they have time",
    plan,
    staleness="correctable",
    exact=False,
    in_order=False,
    even_groups=False,
    settings=(*PACING, "choice", "max_reuse"),
    settle=settle,
)
