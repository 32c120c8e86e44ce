"""The workflow ``seed``: actors send observations, a central server infers in batches, actors hold no model.

    actor 0    | step |ask . | step |ask . | step |ask . |         one trajectory after the other
    actor 1    |  step  |ask . |  step  |ask . |  step  |
    inference          [0]   [0 1]     [1]  [0]                    whoever has asked, at once, with the newest weights
    learners           | update | update | update | update |       as in async

SEED RL (Espeholt et al. 2020). A request waits for the batch that is being computed and no longer: there is no fixed
batch size and nobody waits for stragglers. The weights may change within a trajectory; every row knows its version.
It pays where the network is large and actors many or small, and costs a round trip for each step where it is not.
"""

from __future__ import annotations

from dataclasses import replace

from whorl.actors.actor import Actor
from whorl.actors.remote_policy import SERVER, reply_layout, request_layout
from whorl.engines.contract import Channel, ChannelSpec, Plan, Role, RoleGenerator, RoleSpec
from whorl.job import Job
from whorl.workflows import first_come
from whorl.workflows.contract import Workflow
from whorl.workflows.wiring import actor_ids, actors_to_learners


def run_actor(
    role: Role, requests: Channel, replies: Channel, out: Channel, commands: list[Channel], answers: list[Channel]
) -> RoleGenerator:
    """Step environments, ask for actions, hand trajectories over."""
    job = Job.from_plain(role.job)
    with Actor(job, role, None, commands, answers, inference=(requests, replies)) as actor:
        number = yield from actor.begin()
        if actor.has_strands:
            yield from actor.stream(out, None)
        while actor.stays():
            trajectory = yield from out.reserve()
            yield from actor.fill(trajectory, 0, number)
            out.commit()
            number += 1


def plan(job: Job) -> Plan:
    """As in ``async``, but the weights are shown to the server, and actors are wired to it."""
    learn = f"{first_come.__name__}:run_learner"
    whole = actors_to_learners(job, f"{__name__}:run_actor", learn, first_come.slots(job))
    actors = actor_ids(job)
    names = {kind: tuple(f"{kind}/{actor.index}" for actor in actors) for kind in ("requests", "replies")}
    server = RoleSpec(
        SERVER,
        "whorl.actors.inference:run_inference",
        {"weights": "weights", **names},
        notify=actors,
        torch=job.agent_spec.acting == "torch",
    )
    asking, replying = request_layout(job), reply_layout(job)
    return replace(
        whole,
        roles=(*(_without_model(spec) for spec in whole.roles), server),
        channels=(
            *whole.channels,
            *(ChannelSpec(f"requests/{actor.index}", asking, 2, actor, (SERVER,)) for actor in actors),
            *(ChannelSpec(f"replies/{actor.index}", replying, 2, SERVER, (actor,)) for actor in actors),
        ),
        boards=tuple(replace(board, readers=(SERVER,)) for board in whole.boards),
    )


def _without_model(spec: RoleSpec) -> RoleSpec:
    if spec.id.kind != "actor":
        return spec
    wires = {name: wired for name, wired in spec.endpoints.items() if name != "weights"}
    asking = {kind: f"{kind}/{spec.id.index}" for kind in ("requests", "replies")}
    return replace(spec, endpoints={**wires, **asking}, torch=False)


SEED = Workflow(
    "seed",
    "actors hold no model: a central server infers for whoever asks, in batches; learners as in async",
    plan,
    staleness="correctable",
    exact=False,
    in_order=False,
    has_strands=True,
    fewest_acting=first_come.fewest_acting,
)
