"""Batches of a learner that acts as well: it collects with its own weights, and hands nothing to anybody."""

from __future__ import annotations

from typing import Any

from whorl.actors.actor import Actor
from whorl.engines.contract import Role, RoleGenerator, Wait
from whorl.engines.waits import TURN
from whorl.envs.hosted_lane import DEATHS_BEFORE_QUARANTINE
from whorl.learners.intake import Intake
from whorl.learners.learner import Batch, Learner
from whorl.learners.quarantine import given_up, suspects
from whorl.types import Layout


class OwnLanes(Intake):
    """Collects in small pieces, so that wishes to save or stop are heard in between."""

    def __init__(self, role: Role, learner: Learner, actor: Actor, trajectory: Layout) -> None:
        self._role = role
        self._learner = learner
        self._actor = actor
        self._index = next(iter(learner.ledgers))
        self._trajectory = trajectory.views(trajectory.allocate())
        self._collecting: RoleGenerator
        self._is_full = False
        self._wait = TURN

    def start(self) -> None:
        """Collect from where the ledger says."""
        ledger = self._learner.ledgers[self._index]
        for lane, deaths in self._role.deaths.items():
            if times := deaths // DEATHS_BEFORE_QUARANTINE:
                deadly = suspects(self._learner.job, lane, ledger.lanes)
                for suspect in deadly:
                    ledger.give_up(suspect, times)
                self._role.line.send("warning", {"text": given_up(deadly, "learner", "")})
        self._collecting = self._collect({**ledger.order(), "handed_over": 0})

    def _collect(self, order: dict[str, Any]) -> RoleGenerator:
        number = yield from self._actor.begin_at(order)
        while True:
            self._actor.weights[:] = self._learner.learning.weights()
            yield from self._actor.fill(self._trajectory, self._learner.updates, number)
            self._is_full = True
            number += 1
            yield TURN

    def lost(self, body: dict[str, Any]) -> None:
        """An environment's process was replaced."""
        self._actor.host_lost(body)

    def claim(self) -> bool:
        """Go on collecting, until something has to be waited for."""
        if not self._is_full:
            self._wait = next(self._collecting)
        return self._is_full

    def batch(self) -> Batch:
        """The trajectory just collected."""
        return [(self._index, self._trajectory)]

    def release(self) -> None:
        """It may be overwritten."""
        self._is_full = False

    @property
    def wait(self) -> Wait:
        """What collecting waits for."""
        return self._wait
