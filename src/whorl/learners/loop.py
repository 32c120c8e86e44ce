"""A learner's life: gather a batch, learn from it, show the weights, and again."""

from __future__ import annotations

from whorl.engines.contract import Board, Group, Role, RoleGenerator
from whorl.engines.faults import fault_hook
from whorl.learners.desk import Desk
from whorl.learners.learner import Learner


def learn(
    role: Role, learner: Learner, desk: Desk, contributions: Group, tally: Group, weights: list[Board], lag: int = 0
) -> RoleGenerator:
    """Until the run is over or is to stop. ``weights`` is the first learner's board; the others have none. With a
    ``lag`` of 1 actors may still ask for the version before the newest."""
    strike = fault_hook(role.id, role.incarnation)
    every = learner.job.config.workflow.publish_every
    yield from desk.open()
    for board in weights:
        if lag and learner.updates:
            board.publish(learner.updates - 1, learner.previous_weights)
        board.publish(learner.updates, learner.published())
    desk.start_actors()
    while not learner.done:
        batch = yield from desk.gather()
        if batch is None:
            break  # asked to stop, and saved
        yield from learner.update(batch, contributions, tally)
        if strike is not None:
            strike("update", learner.updates)
        desk.release()
        if learner.updates % every == 0:
            for board in weights:
                board.publish(learner.updates, learner.published())
        desk.report()
    yield from desk.close()
