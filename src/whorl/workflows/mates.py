"""Several ranks for each environment, in any workflow: every role that acts gets mates behind it."""

from __future__ import annotations

from dataclasses import replace

from whorl.actors import mates
from whorl.engines.contract import FEWEST_ACTORS, Plan, RoleId, RoleSpec, TeamSpec
from whorl.job import Job
from whorl.workflows.contract import Workflow

_HERE = mates.__name__


def mates_of(job: Job, index: int) -> list[RoleId]:
    """The mates of the role that acts with this index."""
    count = job.config.resources.ranks_per_env - 1
    return [RoleId("mate", number) for number in range(index * count, (index + 1) * count)]


def with_fewest(plan: Plan, job: Job, workflow: Workflow) -> Plan:
    """The plan, for an engine that can lose actors for good: with fewer it cannot go on."""
    return replace(plan, job={**plan.job, FEWEST_ACTORS: workflow.fewest_acting(job)})


def with_mates(plan: Plan, job: Job, workflow: Workflow) -> Plan:
    """The plan, with teams of ``ranks_per_env`` roles where one role acted. Teams are neighbours in the plan, so that
    launchers put them on one node."""
    if job.config.resources.ranks_per_env == 1:
        return plan
    acts = "learner" if workflow.learners_act else "actor"
    roles: list[RoleSpec] = []
    teams: list[TeamSpec] = []
    led = ""
    for role in plan.roles:
        if role.id.kind != acts:
            roles.append(role)
            continue
        led, team, others = role.entry, f"team/{role.id.index}", mates_of(job, role.id.index)
        roles.append(replace(role, entry=f"{_HERE}:lead", endpoints={**role.endpoints, "team": team}))
        roles += (RoleSpec(mate, f"{_HERE}:run_mate", {"team": team}, parked=role.parked) for mate in others)
        teams.append(TeamSpec(team, (role.id, *others)))
    return replace(plan, roles=tuple(roles), job={**plan.job, mates.LED: led}, teams=(*plan.teams, *teams))
