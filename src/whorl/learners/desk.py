"""A learner's desk: what it does between updates. Gathering trajectories, answering for lost actors, saving, stopping.

Learners decide nothing alone: at each boundary the first one says go on, save or stop, and all do the same. The ledgers
move only inside an update, so that a save at the boundary is the exact state after the last update, whatever part of
the next batch has already arrived.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import replace
from enum import IntFlag

from whorl.engines.contract import Group, Role, Wait
from whorl.errors import CheckpointError
from whorl.learners.inbox import Inbox
from whorl.learners.intake import Intake
from whorl.learners.learner import Batch, Learner
from whorl.learners.saving import Saving

REPORT_EVERY_ENV_STEPS = 32
"""Updates of fewer env steps share a line of metrics."""
FIRST_REPORTS = 2
"""The first updates after a start have a line each, however small: staleness and the steady state begin with them."""


class Command(IntFlag):
    """What the first learner says at a boundary, and any of them; none of these means: come back to the boundary."""

    GO_ON = 1
    SAVE = 2
    STOP = 4
    SAVE_NEXT = 8
    """After the update that follows: the time for a checkpoint has come."""
    WISHED = 16
    """Somebody has heard a wish to save or to stop."""
    INCOMPLETE = 32
    """And has not waited for its trajectories: nobody goes on before it has them."""


class Desk:
    """Between updates."""

    def __init__(self, role: Role, learner: Learner, intake: Intake, group: Group) -> None:
        self._role = role
        self._learner = learner
        self._group = group
        self._intake = intake
        self._inbox = Inbox()
        self._saving = Saving(role, learner, group, self._inbox)
        self._saved_at = time.monotonic()
        self._saves_next = False
        self._reported_env_steps = 0
        self._updates_here = 0
        self._unreported = 0

    def open(self) -> Generator[Wait, None, None]:
        """Go on from the newest checkpoint, where there is one."""
        warnings = self._saving.load()
        if self._is_first:
            begins = {"update": self._learner.updates, "untold_env_steps": self._saving.untold_env_steps}
            told = {**begins, "warnings": warnings, "time": time.monotonic(), **self._learner.summary()}
            self._role.line.send("opened", told)
            while self._inbox.limit is None:  # nobody acts before the driver has taken down what was collected so far
                yield Wait((self._role.line.readable,), "the driver's leave to begin")
                self._inbox.read(self._role.line)
            self._saving.open_stores()
        update = yield from self._group.broadcast(self._learner.updates)
        if update != self._learner.updates:
            raise CheckpointError(
                f"learner {self._learner.rank} found the checkpoint of update {self._learner.updates} and the first "
                f"learner that of update {update}: does every process see the same run directory?"
            )

    @property
    def _is_first(self) -> bool:
        return self._learner.rank == 0

    def start_actors(self) -> None:
        """Tell every actor where its lanes stand."""
        self._intake.start()

    def gather(self) -> Generator[Wait, None, Batch | None]:
        """The trajectories to learn from next, or None when the run is to stop here. Saves when it is time."""
        if self._saves_next and self._learner.updates > max(0, self._saving.updates):
            # Before the trajectories are waited for: they may take hours, and what was learnt is not to be at risk so
            # long. Replays save what learners have not learnt from: all must have given their batches back.
            yield from self._group.barrier()
            yield from self._save(wait=False)
        while True:
            complete = yield from self._collect()
            yield from self._await_leave()
            command = Command((yield from self._group.union(self._command(complete))))
            if command & Command.WISHED:
                # The first learner is told before the others, so that by now it can hear of it, whoever it was. Without
                # this it might say go on, and all would wait for slow trajectories.
                self.read_inbox()
                yield from self._await_leave()
                command = Command((yield from self._group.union(self._command(complete))))
            asked_for, self._inbox.save = self._inbox.save, False
            self._saves_next = bool(command & Command.SAVE_NEXT)
            if command & Command.SAVE:
                yield from self._save(wait=asked_for)
            if asked_for and self._is_first:
                self._saving.answer()
            if command & Command.STOP:
                return None
            if command & Command.GO_ON and not command & Command.INCOMPLETE:
                self._learner.measured({"waiting": self._intake.waiting})
                return self._intake.batch()

    def _await_leave(self) -> Generator[Wait, None, None]:
        """The first learner waits here while the driver lets the run go no further; a wish to save interrupts it."""
        while self._is_first and not (self._may_go_on or self._inbox.stop or self._inbox.save):
            if self._unreported:  # the driver has lowered the limit meanwhile, and waits for this line
                self._send_report()
            yield Wait((self._role.line.readable,), "the driver's leave to go on")
            self.read_inbox()

    @property
    def _may_go_on(self) -> bool:
        return self._inbox.limit is not None and self._inbox.limit > self._learner.updates

    def _collect(self) -> Generator[Wait, None, bool]:
        """Until the batch is complete, or somebody wants something else. Returns whether it is complete."""
        while True:
            self.read_inbox()
            if self._intake.claim():
                return True
            if self._inbox.stop or self._inbox.save:
                return False
            wait = self._intake.wait
            yield replace(wait, endpoints=(*wait.endpoints, self._role.line.readable))

    def read_inbox(self) -> None:
        """Hear what has been asked for, and answer what cannot wait."""
        self._inbox.read(self._role.line)
        for message in self._inbox.lost:
            self._intake.lost(message.body)
        self._inbox.lost.clear()
        if self._inbox.wants_weights:
            self._role.line.send("weights", {"buffer": self._learner.learning.weights().copy()})
            self._inbox.wants_weights = False

    def release(self) -> None:
        """The batch has been learnt from."""
        self._intake.release()

    def report(self) -> None:
        """A line of metrics, if it is time for one, and what became of background saves."""
        self._updates_here += 1
        self._unreported += 1
        if self._is_first and self._report_is_due:
            self._send_report()

    def _send_report(self) -> None:
        self._unreported = 0
        self._reported_env_steps = self._learner.env_steps
        self._role.line.send("metrics", {**self._learner.record(), "time": time.monotonic()})
        self._saving.report()

    @property
    def _report_is_due(self) -> bool:
        """After every update, but for the tiny ones of agents that learn at every env step. The driver waits for the
        line of the last update it gave leave for."""
        learner = self._learner
        tiny = learner.env_steps - self._reported_env_steps < REPORT_EVERY_ENV_STEPS
        return not tiny or self._updates_here <= FIRST_REPORTS or not self._may_go_on or learner.done

    def close(self) -> Generator[Wait, None, None]:
        """The run is over here: save, and say how it ended."""
        # Replays save what learners have not learnt from: nobody may ask them before all have given their batches back.
        yield from self._group.barrier()
        if self._saving.updates != self._learner.updates:
            yield from self._saving.save(self.read_inbox, wait=True)
        # After this one there is no next that would write what was found damaged.
        if (yield from self._group.broadcast(int(self._saving.must_be_repeated()))):
            yield from self._saving.save(self.read_inbox, wait=True)
        if self._is_first:
            self._saving.finish()
            ending = {"complete": self._learner.done, "save_error": self._saving.error}
            self._role.line.send("finished", {**self._learner.summary(), **ending})

    def _save(self, wait: bool) -> Generator[Wait, None, None]:
        self._saved_at = time.monotonic()
        yield from self._saving.save(self.read_inbox, wait=wait)

    def _command(self, complete: bool) -> int:
        """What the first learner has to say; of the others, only whether something was wished for or is missing."""
        wished = self._inbox.save or self._inbox.stop
        command = Command.WISHED if wished else Command(0)
        if not complete:
            command |= Command.INCOMPLETE
        if not self._is_first:
            return int(command)
        if wished and not self._saving.is_done():
            command |= Command.SAVE
        if self._inbox.stop:
            command |= Command.STOP
        elif self._may_go_on:
            command |= Command.GO_ON
        if time.monotonic() - self._saved_at >= self._learner.job.config.run.checkpoint_every_s:
            command |= Command.SAVE_NEXT
        return int(command)
