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
    is_awaited: bool = False
    """Asked for a row that nobody has looked at yet."""


class HostedLanes:
    """The actor's side of K hosts.

    ``wait`` makes what ``arrival`` yields. ``listen`` is called whenever the lanes wake up: the actor looks at its
    own line there, and calls ``host_lost`` when told that a host was replaced. ``recovered`` is told of a lane that
    takes a new step after deaths of its host. ``session`` must differ between an actor and the one that replaces it
    (its incarnation does).

    All lanes may be stepped together (``send``, ``arrival``, ``receive``), or each at its own pace:

        lanes.send_to(index, action)
        while not (indices := lanes.arrived()):
            yield lanes.wait_for_any()
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
        self._any_answer: Any = None
        self._block = RowBlock(spec, len(lanes))
        self._lines = [
            _Line(HostedLane(spec, lane, index, self._block, recovered, session << 40), commands, answers)
            for index, (lane, (commands, answers)) in enumerate(zip(lanes, channels, strict=True))
        ]

    @property
    def outcome(self) -> Outcome:
        """What the last action of each lane led to."""
        return self._block.outcome

    def start(self, states: Sequence[LaneState]) -> Generator[Any, None, Rows]:
        """Have every host reset, or bring its lane back to where the ledger says."""
        for line, state in zip(self._lines, states, strict=True):
            self._begin(line, line.lane.start(state))
        yield from self.arrival()
        self._finish_row()
        return self._block.rows

    def send(self, actions: Array) -> None:
        """Ask every host for a step, or for a reset where the lane is on a final-observation row."""
        for index in range(len(self._lines)):
            self.send_to(index, actions[index])

    def send_to(self, index: int, action: Array) -> None:
        """Ask one of the hosts."""
        line = self._lines[index]
        line.is_awaited = True
        self._begin(line, line.lane.row(np.array(action, self.spec.action.dtype)))

    def arrived(self) -> list[int]:
        """Which of those asked have answered since the last call; their rows and outcomes are there."""
        if self._listen is not None:
            self._listen()
        indices = [index for index, line in enumerate(self._lines) if line.is_awaited and self._progress(line)]
        for index in indices:
            self._block.clear_lane(index)
            self._finish_lane(index)
        return indices

    def wait_for_any(self) -> Any:
        """Until one of those asked may have answered. Always for the same endpoints: waiting for other ones each time
        would cost more than it spares."""
        unsent = [line.commands.writable for line in self._lines if line.is_awaited and not line.is_sent]
        if unsent:
            return self._wait((*unsent, *self._answers), f"{self.spec.env_id}: any lane", list(self.lanes))
        if self._any_answer is None:
            self._any_answer = self._wait(self._answers, f"{self.spec.env_id}: any lane", list(self.lanes))
        return self._any_answer

    @property
    def _answers(self) -> tuple[Any, ...]:
        return tuple(line.answers.readable for line in self._lines)

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

    def snapshot_of(self, index: int) -> bytes | None:
        """A lane's saved state as its host sent it, if it did."""
        return self._lines[index].lane.snapshot

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
        for index in range(len(self._lines)):
            self._finish_lane(index)

    def _finish_lane(self, index: int) -> None:
        line = self._lines[index]
        line.is_awaited = False
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
            line.command = self._advance(line, lambda talk, answer=answer: talk.send(answer))  # type: ignore[misc]
            line.answers.release()  # a conversation keeps what it needs before it goes on
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
