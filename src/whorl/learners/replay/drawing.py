"""A learner's side of replays: batches that wait to be learnt from, and priorities that wait to be sent back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator
from typing import Any

import numpy as np

from whorl.engines.contract import Channel, Role, RoleId, Wait
from whorl.engines.waits import names_of
from whorl.learners.intake import Intake
from whorl.learners.learner import Batch
from whorl.learners.replay.rations import BatchForm
from whorl.replay.memory import Drawn
from whorl.types import Array, Arrays

Errors = tuple[Array, Array, Array]
"""Indices, generations and errors of what was learnt from."""


class Waiting:
    """What a shard of the batch draws from in an update: batches in the order they came, some draws at a time."""

    def __init__(self, form: BatchForm) -> None:
        self._form = form
        self._batches: list[tuple[int, Drawn[Any]]] = []
        self._begin = 0
        self._size = 0
        self.errors: dict[int, list[Errors]] = defaultdict(list)
        """By replay."""

    def begin(self, batch: Batch) -> None:
        """Draw from these from now on, each with the number of its replay."""
        self._batches = [(store, self._form.read(arrays)) for store, arrays in batch]
        self._begin = 0
        self._size = sum(len(drawn.weights) for _, drawn in self._batches)
        self.errors.clear()

    def __len__(self) -> int:
        return self._size

    def draw(self, uniforms: Array, beta: float = 1.0) -> Drawn[Any]:
        """The next draws: the numbers were drawn by the replay, and only their count matters."""
        if self._begin >= len(self._batches[0][1].weights):
            del self._batches[0]
            self._begin = 0
        rows = slice(self._begin, self._begin + len(uniforms))
        self._begin = rows.stop
        drawn = self._batches[0][1]
        weights = drawn.weights[rows] if beta == 1 else np.power(drawn.weights[rows], np.float32(beta))
        return Drawn(drawn.transitions.part(rows), weights, drawn.indices[rows], drawn.generations[rows])

    def set_priorities(self, indices: Array, generations: Array, errors: Array) -> int:
        """Keep them, to be sent back to where they were drawn."""
        self.errors[self._batches[0][0]].append((indices, generations, errors))
        return 0


class FromReplays(Intake):
    """As many batches as an update needs, of whichever replays have them. Replays hand out the next meanwhile."""

    def __init__(self, role: Role, channels: list[Channel], needed: int) -> None:
        self._channels = channels
        self._needed = needed
        self._claimed: list[tuple[int, Arrays]] = []
        self._first = role.id.index
        """The replay that is looked at first: another one each time, so that all have their share."""
        stores = tuple(RoleId("replay", index) for index in range(len(channels)))
        self._wait = Wait(tuple(channel.readable for channel in channels), f"batches of {names_of(stores)}", stores)

    def start(self) -> None:
        """Actors are the replays' business."""

    def lost(self, body: dict[str, Any]) -> None:
        """Nobody whom a learner would have to see to."""

    def claim(self) -> bool:
        """Take one batch of each in turn, until there are enough."""
        count = len(self._channels)
        while len(self._claimed) < self._needed:
            before = len(self._claimed)
            for turn in range(count):
                index = (self._first + turn) % count
                if len(self._claimed) < self._needed and (batch := self._channels[index].try_claim()) is not None:
                    self._claimed.append((index, batch))
            if len(self._claimed) == before:
                return False
        return True

    def batch(self) -> Batch:
        """With the number of the replay that each is of."""
        return self._claimed

    def release(self) -> None:
        """They have been learnt from."""
        for index, _ in self._claimed:
            self._channels[index].release()
        self._claimed = []
        self._first = (self._first + 1) % len(self._channels)

    @property
    def wait(self) -> Wait:
        """For any replay."""
        return self._wait


def write_back(channels: list[Channel], errors: dict[int, list[Errors]]) -> Generator[Wait, None, None]:
    """Send errors to the replays, one message to each."""
    for store, parts in errors.items():
        message = yield from channels[store].reserve()
        joined = [np.concatenate(part) for part in zip(*parts, strict=True)]
        count = len(joined[0])
        message["count"][0] = count
        for name, array in zip(("indices", "generations", "errors"), joined, strict=True):
            message[name][:count] = array
        channels[store].commit()
