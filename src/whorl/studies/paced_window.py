"""``window`` with actors that show one trajectory for each version of the weights: all are new at each update."""

from __future__ import annotations

from dataclasses import replace

from whorl.actors.actor import Actor
from whorl.engines.contract import Board, Channel, Plan, Role, RoleGenerator
from whorl.job import Job
from whorl.workflows import window
from whorl.workflows.window import WINDOW


def run_actor(role: Role, weights: Board, out: Board, commands: list[Channel], answers: list[Channel]) -> RoleGenerator:
    """Wait for the next version, collect, show."""
    job = Job.from_plain(role.job)
    buffer = out.layout.allocate()
    trajectory = out.layout.views(buffer)
    with Actor(job, role, weights.layout, commands, answers) as actor:
        number = yield from actor.begin()
        while True:
            yield from weights.wait_for(number)
            yield from actor.fill(trajectory, weights.read(actor.weights), number)
            out.publish(number, buffer)
            number += 1


def plan(job: Job) -> Plan:
    """As it is, but for the actors."""
    whole = window.plan(job)
    ours = f"{__name__}:run_actor"
    roles = (replace(spec, entry=ours) if spec.id.kind == "actor" else spec for spec in whole.roles)
    return replace(whole, roles=tuple(roles))


PACED = replace(WINDOW, name="paced", plan=plan)
