"""``window`` in rounds: actors show one trajectory for each version of the weights, and learners draw when all have.

So every learner draws one of as many windows as there are actors (or owned ones), while each window changes once. That
is what the formula for random windows assumes, and what nobody would do outside a study: all wait for the slowest.
"""

from __future__ import annotations

from dataclasses import replace

from whorl.actors.actor import Actor
from whorl.engines.contract import Board, Channel, Group, Plan, Role, RoleGenerator, Wait
from whorl.job import Job
from whorl.learners.desk import Desk
from whorl.learners.loop import learn
from whorl.learners.shared import wait_for_any
from whorl.learners.windows import WindowLearner, Windows
from whorl.workflows import window
from whorl.workflows.window import WINDOW


class Rounds(Windows):
    """Windows that are read only when all of them show something of this round."""

    def claim(self) -> bool:
        """Draw, once the last of them has changed."""
        return not self._behind() and super().claim()

    def _behind(self) -> list[int]:
        return [actor for actor, shown in self._windows.items() if shown.version < self._learner.updates]

    @property
    def wait(self) -> Wait:
        """Until those that are behind change."""
        behind = self._behind()[-1:] or list(self._windows)
        return wait_for_any((self._windows[actor].changed for actor in behind), "this round's windows", behind)


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


def run_learner(
    role: Role, trajectories: list[Board], contributions: Group, tally: Group, weights: list[Board]
) -> RoleGenerator:
    """Learn from one draw of each round."""
    job = Job.from_plain(role.job)
    windows = dict(zip(window.read_by(job, tally.rank), trajectories, strict=True))
    learner = WindowLearner(job, tally.rank, role, windows)
    desk = Desk(role, learner, Rounds(learner, windows), tally)
    yield from learn(role, learner, desk, contributions, tally, weights)


def plan(job: Job) -> Plan:
    """As it is, but for who waits for whom."""
    whole = window.plan(job)
    entries = {kind: f"{__name__}:run_{kind}" for kind in ("actor", "learner")}
    roles = (replace(spec, entry=entries.get(spec.id.kind, spec.entry)) for spec in whole.roles)
    return replace(whole, roles=tuple(roles))


PACED = replace(WINDOW, name="paced", plan=plan)
