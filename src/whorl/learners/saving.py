"""Checkpoints of a run, as its learners make them.

The first learner writes what all learners share and the ledgers, which the others send it. What belongs to a shard
alone (a replay) is written by the role that holds it, straight into the draft; pieces that have not changed since
the checkpoint before are taken over from it and not written again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from whorl.engines.contract import Group, Role, RoleId, Wait
from whorl.errors import CheckpointError
from whorl.learners.inbox import Inbox
from whorl.learners.learner import Learner
from whorl.learners.pieces import Pieces
from whorl.runs.checkpoint import (
    BackgroundSaver,
    Checkpoint,
    CheckpointMeta,
    CheckpointWriter,
    Draft,
    SaveRequest,
    SpoiltPieceError,
    load_latest,
    taking_over,
)
from whorl.trajectory.orders import within_limit
from whorl.types import Arrays

STORED = "replay-"
"""What the names of files begin with that belong to roles beside the learners."""
DISK_TIMEOUT_S = 3600.0
"""A checkpoint, or a part of one, that takes longer to write or to read is a hang."""


class Saving:
    """Loads at the start, saves at update boundaries. Every learner takes part in every save."""

    def __init__(self, role: Role, learner: Learner, group: Group, inbox: Inbox) -> None:
        self.updates = -1
        """Of the last save that was begun; -1 before the first."""
        self.error = ""
        """Why the last save failed; empty when it did not."""
        self.untold_env_steps = 0
        """Of the checkpoint that was loaded: what replays had taken in and learners had not heard of."""
        self._role = role
        self._learner = learner
        self._group = group
        self._inbox = inbox
        self._folder = learner.job.run_dir / "checkpoints"
        self._writer = CheckpointWriter(self._folder, learner.job.config.run.keep_checkpoints, learner.job.token)
        self._saver = BackgroundSaver(self._writer)
        self._pieces = Pieces()
        self._partners = (*(RoleId("learner", rank) for rank in range(1, group.size)), *learner.stores)
        """Who else has a part in a checkpoint."""
        self._newest: Path | None = None
        """The newest checkpoint that is known to be whole."""
        self._is_spoilt = False
        """The last save failed because what it took over is damaged. The next takes nothing over."""

    def load(self) -> list[str]:
        """Go on from the newest checkpoint, where there is one. Returns what the user should be told."""
        stores = self._learner.stores
        with self._at_the_disk():
            checkpoint = load_latest(self._folder, _is_a_learners) if stores else load_latest(self._folder)
            if checkpoint is None:
                return []
            with taking_over(checkpoint.path):
                return checkpoint.warnings + self._take_over(checkpoint)

    def _take_over(self, checkpoint: Checkpoint) -> list[str]:
        warnings = self._learner.load(checkpoint.arrays, checkpoint.values["state"])
        self.updates = self._learner.updates
        self.untold_env_steps = int(checkpoint.values["state"].get("untold_env_steps", 0))
        self._newest = checkpoint.path
        for shard, pieces in _pieces_by_shard(checkpoint).items():
            if shard in self._learner.shards:
                self._learner.learning.load_shard(shard, pieces)
                named = {_piece_name(shard, name): piece for name, piece in pieces.items()}
                self._pieces.loaded(named, checkpoint.path)
        return warnings

    def open_stores(self) -> None:
        """Have the roles beside the learners load their parts of that checkpoint, and begin."""
        for store in self._learner.stores:
            self._role.line.send("load", {"checkpoint": str(self._newest or "")}, to=store)

    def save(self, read_inbox: Callable[[], None], *, wait: bool) -> Generator[Wait, None, None]:
        """Save the state at this boundary. With ``wait`` it is on disk, or has failed, when this ends."""
        self.updates = self._learner.updates
        if self._learner.rank == 0:
            yield from self._save_as_first(read_inbox, wait)
        else:
            yield from self._save_as_other(read_inbox)

    def _save_as_first(self, read_inbox: Callable[[], None], wait: bool) -> Generator[Wait, None, None]:
        self.finish()  # the save before, which had a whole interval to end
        draft = self._begin()
        # The others need to know even when there is no draft: they wait for this.
        for partner in self._partners:
            body = {"draft": str(draft.path) if draft else "", "newest": str(self._newest or "")}
            self._role.line.send("draft", body, to=partner)
        while len(self._inbox.ledgers) < len(self._partners):
            yield Wait((self._role.line.readable,), "the others' parts of the checkpoint", self._partners)
            read_inbox()
        answers = [self._inbox.ledgers[partner].body for partner in sorted(self._inbox.ledgers)]
        self._inbox.ledgers.clear()
        if draft is None:
            return
        ledgers = [self._learner.saved_ledger(), *(answer["ledger"] for answer in answers)]
        arrays, counts = self._learner.save([ledger for ledger in ledgers if ledger])
        counts["untold_env_steps"] = sum(answer.get("untold_env_steps", 0) for answer in answers)
        with self._at_the_disk():
            for name, piece in self._pieces.changed(self._shards(), draft, self._newest).items():
                arrays[name] = {field: np.array(array) for field, array in piece.items()}
        parts = tuple(name for answer in answers for name in answer["parts"])
        meta = CheckpointMeta(self._learner.env_steps, parts)
        self._saver.submit(SaveRequest(self.updates, arrays, {"state": counts}, meta, draft))
        if wait:
            self.finish()

    def _begin(self) -> Draft | None:
        try:
            with self._at_the_disk():
                return self._writer.begin(self.updates)
        except CheckpointError as error:
            self._failed(error)
            return None

    def _save_as_other(self, read_inbox: Callable[[], None]) -> Generator[Wait, None, None]:
        while self._inbox.draft is None:
            yield Wait((self._role.line.readable,), "the first learner's draft of a checkpoint")
            read_inbox()
        message, self._inbox.draft = self._inbox.draft, None
        with self._at_the_disk():
            parts = self._pieces.write(self._shards(), message)
        ledger = within_limit(self._learner.saved_ledger(), self._learner.job.env)
        body = {"ledger": ledger, "parts": parts}
        self._role.line.send("ledger", body, to=RoleId("learner", 0))

    def _shards(self) -> dict[str, Arrays]:
        """What belongs to the shards of this learner."""
        return {
            _piece_name(shard, short): piece
            for shard in self._learner.shards
            for short, piece in self._learner.learning.save_shard(shard).items()
        }

    def is_done(self) -> bool:
        """Whether this very state is on disk; waits for a save under way."""
        self.finish()
        return self.updates == self._learner.updates and self._newest is not None and not self.error

    def must_be_repeated(self) -> bool:
        """Whether the last save has only failed because of what it took over; waits for it."""
        self.finish()
        return self._is_spoilt

    def answer(self) -> None:
        """Tell the driver, who asked for a checkpoint, where it is or why it is not."""
        self._role.line.send("save_answer", {"path": str(self._newest or ""), "error": self.error})

    def finish(self) -> None:
        """Until no save is under way; tells the driver how they ended."""
        with self._at_the_disk():
            self._saver.wait()
        self.report()

    def report(self) -> None:
        """Tell the driver how saves ended since the last time, and which old checkpoints would not go away."""
        for text in self._writer.warnings:
            self._role.line.send("warning", {"text": text})
        self._writer.warnings.clear()
        for outcome in self._saver.poll():
            self._is_spoilt = isinstance(outcome.error, SpoiltPieceError)
            if self._is_spoilt:
                self._newest = None
            if outcome.error is not None:
                self._failed(outcome.error)
            else:
                self.error, self._newest = "", outcome.path
                self._role.line.send("saved", {"update": outcome.update, "path": str(outcome.path)})

    @contextmanager
    def _at_the_disk(self) -> Iterator[None]:
        """Nothing is answered meanwhile, and a disk may be slow: whoever waits for this learner is to know."""
        self._role.clock.enter("other", deadline_s=DISK_TIMEOUT_S)
        try:
            yield
        finally:
            self._role.clock.enter("other")

    def _failed(self, error: CheckpointError) -> None:
        self.error = str(error)
        self._role.line.send("save_failed", {"text": self.error})


def _piece_name(shard: int, name: str) -> str:
    return f"shard-{shard}-{name}"


def _is_a_learners(name: str) -> bool:
    return not name.startswith(STORED)


def _pieces_by_shard(checkpoint: Checkpoint) -> dict[int, dict[str, Arrays]]:
    found: dict[int, dict[str, Any]] = {}
    for name, arrays in checkpoint.arrays.items():
        if name.startswith("shard-"):
            shard, short = name.removeprefix("shard-").split("-", 1)
            found.setdefault(int(shard), {})[short] = arrays
    return found
