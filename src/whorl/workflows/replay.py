"""The workflow ``replay``: actors push to sharded replays, learners draw from them and send priorities back.

    actor 0    | collect | collect | collect | collect |             each lane with an epsilon of its own
                    |         | trajectories, initial priorities
    replay 0        v         v                                      takes in and hands out at its pace
                      | batches  ^ priorities
    learners          v          |
               | update | update | update | update |                 the next batches wait already

Ape-X (Horgan et al. 2018). A replay has actors of its own, and a batch comes from one replay, whichever has one.
Neither side runs away: for each env step taken in, ``workflow.samples_per_insert`` are drawn. The alias ``apex`` is
``dqn`` like this.
"""

from __future__ import annotations

from dataclasses import replace

from whorl.actors.actor import Actor
from whorl.actors.ladder import Ladder, ladder_powers
from whorl.actors.scoring import PRIORITY, Scores
from whorl.agents.contract import AgentSpec
from whorl.agents.registry import get_agent
from whorl.config.schema import Config
from whorl.engines.contract import Board, Channel, ChannelSpec, Group, Plan, Role, RoleGenerator, RoleId, RoleSpec
from whorl.errors import ConfigError
from whorl.job import Job
from whorl.learners.desk import Desk
from whorl.learners.loop import learn
from whorl.learners.replay.drawing import FromReplays
from whorl.learners.replay.learner import ReplayLearner
from whorl.learners.replay.news import news_tally_layout
from whorl.learners.replay.rations import BatchForm, Rations, least_rows, priorities_layout
from whorl.learners.replay.store import actors_of_store
from whorl.trajectory.episodes import told_metrics
from whorl.types import Arrays, Field, Layout
from whorl.workflows.contract import Workflow
from whorl.workflows.wiring import actor_ids, actors_to_learners, layout_of_trajectories, learner_ids

TRAJECTORY_SLOTS = 3
"""Of each strand of an actor: one that is filled, and two that wait for their replay's pace."""
PRIORITY_SLOTS = 2
ACTORS_PER_SHARD = 8


def run_actor(
    role: Role, weights: Board, out: Channel, commands: list[Channel], answers: list[Channel]
) -> RoleGenerator:
    """Collect with the newest weights, and say how surprising each row was."""
    job = Job.from_plain(role.job)
    spec, lanes = job.agent_spec, job.lane_map
    scores = None
    if spec.priority_rows and job.agent.postprocess:
        shared = job.config.workflow.postprocess == "ranks"
        scores = Scores(job.agent.postprocess(job.config.agent, job.env), weights.layout, shared)
    with Actor(job, role, weights.layout, commands, answers) as actor:
        powers = ladder_powers(lanes.lanes_of_actor(role.id.index), lanes.lanes, job.config.workflow.exploration_ladder)
        if spec.exploration:
            actor.on_weights = Ladder(actor.weight_views, spec.exploration, powers).spread

        def finish(trajectory: Arrays) -> None:
            if scores is not None:
                role.clock.enter("inference")
                trajectory[PRIORITY][:] = scores(actor.weights, actor.weight_views, actor.version, trajectory)
                role.clock.enter("transfer")

        number = yield from actor.begin()
        yield from weights.wait_for(0)
        if actor.has_strands:
            yield from actor.stream(out, weights, finish)
        while actor.stays():
            trajectory = yield from out.reserve()
            version = actor.read(weights)
            yield from actor.fill(trajectory, version, number)
            finish(trajectory)
            out.commit()
            number += 1


def run_learner(
    role: Role,
    batches: list[Channel],
    priorities: list[Channel],
    contributions: Group,
    tally: Group,
    weights: list[Board],
) -> RoleGenerator:
    """Learn from batches that wait already."""
    job = Job.from_plain(role.job)
    learner = ReplayLearner(job, tally.rank, role.clock, priorities)
    desk = Desk(role, learner, FromReplays(role, batches, Rations.of(job).batches), tally)
    yield from learn(role, learner, desk, contributions, tally, weights)


def plan(job: Job) -> Plan:
    """As between actors and learners, with the replays between them."""
    slots = TRAJECTORY_SLOTS * job.lane_map.strands_per_actor
    whole = actors_to_learners(job, f"{__name__}:run_actor", f"{__name__}:run_learner", slots)
    agent, learners, actors = job.agent_spec, learner_ids(job), actor_ids(job)
    stores = tuple(RoleId("replay", index) for index in range(job.config.workflow.replay_shards))
    store_of = {actors[i]: store for store in stores for i in actors_of_store(job, store.index)}
    prioritised = agent.priority_rows > 0
    pairs = [(store, learner) for store in stores for learner in learners]
    batch, errors, waiting = BatchForm(job).layout, priorities_layout(job), 2 * Rations.of(job).batches
    trajectory = _with_priorities(layout_of_trajectories(job), agent, job.lane_map.envs_per_strand)
    board = agent.parameters if prioritised and agent.parameters is not None else agent.weights
    tally = news_tally_layout(len(learners), len(told_metrics(job.env)))
    return replace(
        whole,
        roles=(
            *(_rewired(spec, store_of, stores, prioritised) for spec in whole.roles),
            *(_replay(job, store, learners, prioritised) for store in stores),
        ),
        channels=(
            *(
                replace(spec, layout=trajectory, readers=(store_of[spec.writer],))
                if spec.name.startswith("trajectories/")
                else spec
                for spec in whole.channels
            ),
            *(ChannelSpec(_batches(store, to), batch, waiting, store, (to,)) for store, to in pairs),
            *(
                ChannelSpec(_back(by, store), errors, PRIORITY_SLOTS, by, (store,))
                for store, by in pairs
                if prioritised
            ),
        ),
        boards=tuple(replace(spec, layout=board, readers=(*actors, *stores)) for spec in whole.boards),
        groups=tuple(replace(spec, layout=tally) if spec.name == "tally" else spec for spec in whole.groups),
    )


def _batches(store: RoleId, learner: RoleId) -> str:
    return f"batches/{store.index}/{learner.index}"


def _back(learner: RoleId, store: RoleId) -> str:
    return f"priorities/{learner.index}/{store.index}"


def _with_priorities(trajectory: Layout, agent: AgentSpec, lanes: int) -> Layout:
    if not agent.priority_rows:
        return trajectory
    return Layout((*trajectory.fields, Field(PRIORITY, (agent.priority_rows, lanes), "float32")))


def _rewired(spec: RoleSpec, store_of: dict[RoleId, RoleId], stores: tuple[RoleId, ...], prioritised: bool) -> RoleSpec:
    """Actors are their replay's, and learners have replays in the place of actors."""
    if spec.id.kind == "actor":
        return replace(spec, notify=(store_of[spec.id],))
    if spec.id.kind != "learner":
        return spec
    wires = {name: wired for name, wired in spec.endpoints.items() if name != "trajectories"}
    wires["batches"] = tuple(_batches(store, spec.id) for store in stores)
    wires["priorities"] = tuple(_back(spec.id, store) for store in stores if prioritised)
    return replace(spec, endpoints=wires)


def _replay(job: Job, store: RoleId, learners: tuple[RoleId, ...], prioritised: bool) -> RoleSpec:
    """What is in a replay is in the checkpoint: with one lost, all go on from there."""
    return RoleSpec(
        store,
        "whorl.learners.replay.role:run_replay",
        {
            "weights": "weights",
            "trajectories": tuple(f"trajectories/{i}" for i in actors_of_store(job, store.index)),
            "batches": tuple(_batches(store, learner) for learner in learners),
            "priorities": tuple(_back(learner, store) for learner in learners if prioritised),
        },
        on_loss="restart_all",
    )


def settle(config: Config) -> Config:
    """One replay for some actors, unless told otherwise."""
    shards = config.workflow.replay_shards or max(1, config.resources.actors // ACTORS_PER_SHARD)
    return replace(config, workflow=replace(config.workflow, replay_shards=shards))


def check(config: Config, agent: AgentSpec) -> None:
    """The agent must have a replay, and each replay an actor and room for its trajectories."""
    if agent.replay == "none":
        raise ConfigError(
            f"{config.agent_name} learns from each trajectory once, and in replay everything comes from a memory: use "
            "dqn, ddpg, td3 or sac, or --workflow sync"
        )
    drawn, resources, shards = agent.draws, config.resources, config.workflow.replay_shards
    if drawn is None or get_agent(config.agent_name).memory is None:
        raise ConfigError(
            f"{config.agent_name} holds its memory itself, and in replay others hold it, for which an agent needs "
            "Agent.memory, AgentSpec.draws and a learning half with draw_from: use --workflow async"
        )
    if config.workflow.postprocess == "ranks" and not (agent.priority_rows and resources.ranks_per_env > 1):
        what = "--ranks-per-env 2, so that there are some" if agent.priority_rows else "agent.replay.prioritised=true"
        raise ConfigError(f"workflow.postprocess = 'ranks' has nothing to compute, or no idle ranks: use {what}")
    if shards > resources.actors:
        raise ConfigError(
            f"workflow.replay_shards = {shards}: each replay has actors of its own, and there are "
            f"{resources.actors}: use at most {resources.actors}, or more --actors"
        )
    if drawn.batch_size % resources.shards:
        raise ConfigError(
            f"agent.batch_size = {drawn.batch_size} cannot be shared out evenly over {resources.shards} shards: use "
            f"a multiple such as {max(1, drawn.batch_size // resources.shards) * resources.shards}"
        )
    rows, needed = drawn.capacity // shards, least_rows(agent, resources.envs_per_actor)
    if rows < needed:
        raise ConfigError(
            f"agent.replay.capacity = {drawn.capacity} leaves {rows} rows for each of {shards} replays, and "
            f"{needed} are needed: use a capacity of at least {needed * shards}"
        )


REPLAY = Workflow(
    "replay",
    "actors push to sharded replays, learners draw from them and send priorities back (Ape-X)",
    plan,
    staleness="any",
    exact=False,
    in_order=False,
    has_strands=True,
    settings=("replay_shards", "samples_per_insert", "exploration_ladder", "postprocess"),
    settle=settle,
    check=check,
)
