"""Lanes whose environments live in processes of their own, which may be slow, hang or die without hurting others.

Each lane is a small conversation with its host, written as a generator: it yields a command and gets the answer.
When the host died and was replaced, ``HostLost`` is thrown into the conversation, which rebuilds the environment by
the current episode's actions and goes on. All lanes converse at the same time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from whorl.envs.contract import LaneState, Outcome, Rows
from whorl.envs.hosted import CLOSE, HostChannel
from whorl.envs.hosted_lane import Command, Conversation, HostedLane, HostLost
from whorl.envs.row_block import RowBlock
from whorl.types import Array, Arrays, EnvSpec

WaitFactory = Callable[[tuple[Any, ...], str, Sequence[int]], Any]
"""From endpoints, what is waited for and the lanes concerned to what the engine's loop understands."""


@dataclass
class _Line:
    """One lane's channels and what is under way on them."""

    lane: HostedLane
    commands: HostChannel
    answers: HostChannel
    conversation: Conversation | None = None
    command: Command | None = None
    is_sent: bool = False


class HostedLanes:
    """The actor's side of K hosts.

    ``wait`` makes what ``arrival`` yields. ``listen`` is called whenever the lanes wake up: the actor looks at its
    own line there, and calls ``host_lost`` when told that a host was replaced. ``recovered`` is told of a lane that
    takes a new step after deaths of its host. ``session`` must differ between an actor and the one that replaces it
    (its incarnation does).
    """

    def __init__(
        self,
        spec: EnvSpec,
        lanes: range,
        channels: Sequence[tuple[HostChannel, HostChannel]],
        wait: WaitFactory,
        listen: Callable[[], object] | None = None,
        recovered: Callable[[int], None] | None = None,
        session: int = 0,
    ) -> None:
        self.spec, self.lanes = spec, lanes
        self._wait, self._listen = wait, listen
        self._block = RowBlock(spec, len(lanes))
        self._lines = [
            _Line(HostedLane(spec, lane, index, self._block, recovered, session << 40), commands, answers)
            for index, (lane, (commands, answers)) in enumerate(zip(lanes, channels, strict=True))
        ]

    def start(self, states: Sequence[LaneState]) -> Generator[Any, None, Rows]:
        """Have every host reset, or bring its lane back to where the ledger says."""
        for line, state in zip(self._lines, states, strict=True):
            self._begin(line, line.lane.start(state))
        yield from self.arrival()
        self._finish_row()
        return self._block.rows

    def send(self, actions: Array) -> None:
        """Ask every host for a step, or for a reset where the lane is on a final-observation row."""
        for index, line in enumerate(self._lines):
            self._begin(line, line.lane.row(np.array(actions[index], self.spec.action.dtype)))

    def arrival(self) -> Generator[Any, None, None]:
        """Until every lane has answered."""
        while True:
            if self._listen is not None:
                self._listen()
            waited_for = [line for line in self._lines if not self._progress(line)]
            if not waited_for:
                return
            endpoints = tuple(line.answers.readable if line.is_sent else line.commands.writable for line in waited_for)
            lanes = [line.lane.lane for line in waited_for]
            yield self._wait(endpoints, f"{self.spec.env_id} in lane {', '.join(map(str, lanes[:5]))}", lanes)

    def receive(self) -> Outcome:
        """The hosts' answers as rows and outcome."""
        self._finish_row()
        return self._block.outcome

    def host_lost(self, lane: int, incarnation: int) -> None:
        """A lane's process died, and another of this incarnation took its place."""
        line = self._lines[lane - self.lanes[0]]
        if incarnation <= line.lane.incarnation:
            return  # old news: it has answered already
        line.lane.incarnation = incarnation
        if line.conversation is None:
            line.lane.is_lost = True  # between rows: the next one begins with the rebuilding
        else:
            line.command = self._advance(line, lambda talk: talk.throw(HostLost()))

    def snapshots(self) -> list[bytes] | None:
        """Each lane's saved state as its host sent it, where all did."""
        saved = [line.lane.snapshot for line in self._lines]
        found = [snapshot for snapshot in saved if snapshot is not None]
        return found if len(found) == len(saved) else None

    def close(self) -> None:
        """Tell the hosts to end, where they listen; the engine ends those that do not."""
        for line in self._lines:
            line.conversation, line.command, line.is_sent = None, Command(CLOSE), False
            self._try_send(line)

    @property
    def exact(self) -> bool:
        """False once a lane could not be rebuilt as it was."""
        return all(line.lane.exact for line in self._lines)

    @property
    def episodes(self) -> list[int]:
        """Number of each lane's current episode."""
        return [line.lane.episode for line in self._lines]

    @property
    def fault_count(self) -> int:
        """Faults of all lanes so far."""
        return sum(line.lane.fault_count for line in self._lines)

    @property
    def faults(self) -> deque[str]:
        """The latest faults of all lanes, for the log."""
        return deque((text for line in self._lines for text in line.lane.faults), maxlen=20)

    def _finish_row(self) -> None:
        """Only now are the rows overwritten: until then a rebuilt lane is compared with them."""
        self._block.clear()
        for index, line in enumerate(self._lines):
            self._block.outcome.reward[index] = line.lane.finish()

    def _begin(self, line: _Line, conversation: Conversation) -> None:
        line.conversation = conversation
        line.command = self._advance(line, next)
        self._try_send(line)

    def _advance(self, line: _Line, resume: Callable[[Conversation], Command]) -> Command | None:
        """Go on with a lane's conversation: its next command, or None when the row is complete."""
        assert line.conversation is not None
        line.is_sent = False
        try:
            return resume(line.conversation)
        except StopIteration:
            line.conversation = None
            return None

    def _progress(self, line: _Line) -> bool:
        """Send and receive as much as there is; True when the lane's row is complete."""
        while line.command is not None:
            if not line.is_sent and not self._try_send(line):
                return False
            answer = line.answers.try_claim()
            if answer is None:
                return False
            if not line.lane.is_answered_by(answer):
                line.answers.release()
                continue
            copied = {name: array.copy() for name, array in answer.items()}
            line.answers.release()
            line.command = self._advance(line, lambda talk, copied=copied: talk.send(copied))  # type: ignore[misc]
        return True

    def _try_send(self, line: _Line) -> bool:
        """Write the command if there is room; never waits."""
        if line.command is None or line.is_sent:
            return True
        reserving = line.commands.reserve()
        try:
            next(reserving)
        except StopIteration as done:
            slot: Arrays = done.value
        else:
            reserving.close()
            return False
        line.lane.write(line.command, slot)
        line.commands.commit()
        line.is_sent = True
        return True
