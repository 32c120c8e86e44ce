"""A workflow of another package: sync's wiring with a learner of its own."""

from dataclasses import replace
from functools import partial

from whorl.engines.contract import Board, Channel, Group, Plan, Role, RoleGenerator
from whorl.job import Job
from whorl.workflows import lockstep
from whorl.workflows.contract import Workflow


def run_learner(
    role: Role, trajectories: list[Channel], contributions: Group, tally: Group, weights: list[Board]
) -> RoleGenerator:
    """As sync's, but it says so."""
    role.line.send("warning", {"text": "the learner of another package"})
    yield from lockstep.run_learner(role, trajectories, contributions, tally, weights)


def run_hasty_learner(role: Role, **endpoints: object) -> RoleGenerator:
    """Ends before anything has happened."""
    return
    yield


def plan(job: Job, learner: str = "run_learner") -> Plan:
    """The wiring of sync."""
    sync = lockstep.plan(job)
    ours = f"{__name__}:{learner}"
    roles = (replace(spec, entry=ours) if spec.id.kind == "learner" else spec for spec in sync.roles)
    return replace(sync, roles=tuple(roles))


WORKFLOW = Workflow("plugged", "sync by another name, which promises less", plan, staleness="strict", exact=False)
HASTY = replace(WORKFLOW, name="hasty", plan=partial(plan, learner="run_hasty_learner"))
