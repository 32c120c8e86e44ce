"""Environments of several ranks: the role that acts leads a crew, whose other ranks are *mates*.

Whoever acts does so as ever; that its environments span ranks is between them and its crew. See
``whorl.envs.parallel``.
"""

from __future__ import annotations

import time
from typing import Any

from whorl.actors.scoring import admit_scores
from whorl.engines.contract import Endpoint, Role, RoleGenerator, Team, Wait
from whorl.engines.entries import load_entry
from whorl.envs.deadline import StepDeadline
from whorl.envs.parallel.crew import Crew
from whorl.envs.parallel.waiting import wait_until
from whorl.envs.registry import Env, make_env
from whorl.envs.remote.address import kwargs_of
from whorl.job import Job

LED = "led"
"""Key of the plan's job: the entry of the roles that lead crews."""
_GOODBYE_S = 2.0
"""How long a mate that was dismissed waits for its leader's last commands."""


def lead(role: Role, team: Team, **endpoints: Any) -> RoleGenerator:
    """Run a role that acts, whose environments are also those of its mates."""
    crew = Crew(team.comm)
    with crew.present():
        try:
            yield from load_entry(role.job[LED])(role, **endpoints)
        finally:
            crew.dismiss()


def run_mate(role: Role, team: Team) -> RoleGenerator:
    """Step environments with their leader until it has no more commands."""
    job, crew = Job.from_plain(role.job), Crew(team.comm)
    deadline = StepDeadline(job.config.env.step_timeout_s)
    coming = _Coming(crew)

    def make() -> Env:
        return make_env(job.config.env.id, kwargs_of(job.config.env))

    with crew.present():
        admit_scores(job, crew)
        ended = False
        try:
            while not ended:
                if not crew.ready():
                    yield Wait((coming,), "a command of its environments' first rank")
                role.clock.enter("environment", deadline.seconds)
                began_s = time.perf_counter()
                ended = not crew.obey(make)
                deadline.saw(time.perf_counter() - began_s)
                role.clock.enter("other")
        except GeneratorExit:
            while not ended and wait_until(crew.ready, _GOODBYE_S):  # its leader may still have to close environments
                ended = not crew.obey(make)
            raise


class _Coming(Endpoint):
    """Ready when a command has come."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew

    def ready(self) -> bool:
        return self._crew.ready()
