"""One hosted lane's side of the conversation with its host: what is asked, and what is done when the host dies."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from whorl.envs.contract import LaneState
from whorl.envs.hosted import (
    ANY_INCARNATION,
    DONE,
    RAISED,
    REFUSED,
    RESET,
    RESTORE,
    STEP,
    read_snapshot,
    read_text,
    write_snapshot,
)
from whorl.envs.row_block import RowBlock
from whorl.errors import EnvironmentFault
from whorl.types import Array, Arrays, EnvSpec

DEATHS_BEFORE_QUARANTINE = 3
"""Deaths at the same step of an episode before that episode is given up."""

_AT_RESET = -1


@dataclass
class Command:
    """What a host is asked to do."""

    kind: int
    episode: int = 0
    attempt: int = 0
    action: Array | None = None
    snapshot: bytes | None = None


class HostLost(Exception):
    """Thrown into a conversation: the host died and another one, which knows nothing, took its place."""


Conversation = Generator[Command, Arrays, None]
Question = Generator[Command, Arrays, bool]


class HostedLane:
    """Everything the actor knows of a lane: enough to build its environment again in another process."""

    def __init__(
        self,
        spec: EnvSpec,
        lane: int,
        index: int,
        block: RowBlock,
        recovered: Callable[[int], None] | None,
        first_number: int,
    ) -> None:
        self.spec, self.lane, self.index = spec, lane, index
        self.incarnation, self.is_lost, self.exact = ANY_INCARNATION, False, True
        self.episode = 0
        self.snapshot: bytes | None = None
        """The host's last saved state, where it offers one that is small enough to travel."""
        self.faults: deque[str] = deque(maxlen=20)
        self.fault_count = 0
        self._host_faults = 0
        self._block, self._recovered = block, recovered
        self._died_since_a_step = False
        self._number = first_number
        self._attempt = 0
        self._actions: list[Array] = []
        self._position, self._deaths = _AT_RESET, Counter[int]()
        self._arrived = {leaf.name: np.zeros(leaf.shape, leaf.dtype) for leaf in spec.observation}
        self._row: Literal["first", "fault", "stepped", "final", "restored"] = "first"
        self._ends = (0.0, False, False)
        self._metrics = np.full(len(spec.episode_metrics), np.nan)

    def start(self, state: LaneState) -> Conversation:
        """A plain reset, or back to where the ledger says; failing that, the next episode."""
        self.episode = state.episode
        if state.skip:
            self.exact = False
            yield from self._begin(state.episode + state.skip, "first")
            return
        if state.observation is None:
            yield from self._begin(state.episode, "first")
            return
        self._block.copy_observation(self.index, state.observation)
        if state.ended:
            self._row, self.snapshot, self.is_lost = "final", state.snapshot, True
            self._arrived = {name: np.array(state.observation[name]) for name in self._arrived}
            return
        self._actions, self.snapshot = list(state.actions), state.snapshot
        if self._may_rebuild():
            while True:
                try:
                    if not (yield from self._rebuild()):
                        break
                except HostLost:
                    if self._is_given_up():
                        break
                else:
                    self._row = "restored"
                    return
        self.exact, self.snapshot = False, None
        yield from self._begin(state.episode + 1, "first")

    def row(self, action: Array) -> Conversation:
        """One step; or the reset that follows a final observation."""
        if self._block.resetting[self.index]:
            yield from self._begin(self.episode + 1, "first")
            return
        while True:
            try:
                if self.is_lost and not (self._may_rebuild() and (yield from self._rebuild())):
                    self._note(f"{self.where()}: its process died and it could not be brought back as it was")
                    break
                self._position = len(self._actions)
                answer = yield Command(STEP, action=action)
            except HostLost:
                self.is_lost = True
                if self._is_given_up():
                    break
                continue
            if int(answer["status"]) == RAISED:
                self.faults.append(read_text(answer["message"]))
                yield from self._begin(self.episode + 1, "fault")
                return
            self._actions.append(action)
            self._keep(answer)
            self._deaths.clear()
            if self._died_since_a_step:
                self._died_since_a_step = False
                if self._recovered is not None:
                    self._recovered(self.lane)
            self._row = "final" if self._ends[1] or self._ends[2] else "stepped"
            return
        self.exact = False
        yield from self._begin(self.episode + 1, "fault")

    def finish(self) -> float:
        """Write what arrived into the rows; the reward."""
        if self._row == "restored":
            if not self._actions:
                self._block.began(self.index)
            return 0.0
        self._block.copy_observation(self.index, self._arrived)
        if self._row == "final":
            self._block.ended(self.index, self._ends[1], self._ends[2], self._metrics)
        elif self._row != "stepped":
            self._block.began(self.index, fault=self._row == "fault")
        return self._ends[0]

    def write(self, command: Command, slot: Arrays) -> None:
        """A command into a channel's slot."""
        self._number += 1
        slot["incarnation"][...] = self.incarnation
        slot["number"][...] = self._number
        slot["kind"][...], slot["episode"][...], slot["attempt"][...] = command.kind, command.episode, command.attempt
        slot["action"][...] = 0 if command.action is None else command.action
        write_snapshot(slot, command.snapshot)

    def is_answered_by(self, answer: Arrays) -> bool:
        """Whether this answers the last command; if so, notes who answered, and raises what the host refused."""
        if int(answer["number"]) != self._number:
            return False
        incarnation, faults = int(answer["incarnation"]), int(answer["faults"])
        if incarnation != self.incarnation:
            self.incarnation, self._host_faults = incarnation, 0
        self.fault_count += max(0, faults - self._host_faults)
        self._host_faults = faults
        if int(answer["status"]) == REFUSED:
            raise EnvironmentFault(read_text(answer["message"]))
        return True

    def where(self) -> str:
        """For messages: the environment, the lane, the episode and the step."""
        step = "reset" if self._position == _AT_RESET else f"env step {self._position + 1}"
        return f"{self.spec.env_id}: lane {self.lane}, episode {self.episode}, {step}"

    def _begin(self, episode: int, row: Literal["first", "fault"]) -> Conversation:
        """Begin an episode. A host that dies of it again and again is asked for another seed. A new host is first told
        what has been: a reset may depend on it, as in a game that goes on after the loss of a life."""
        before, knows = self.snapshot if row == "first" else None, not self.is_lost
        self.episode, self.is_lost, self.snapshot = episode, False, None
        self._actions = []
        self._position = _AT_RESET
        self._attempt = 0
        self._deaths.clear()
        while True:
            try:
                if before is not None and not knows:
                    yield Command(RESTORE, episode, snapshot=before)
                answer = yield Command(RESET, episode, self._attempt)
            except HostLost:
                knows = False
                if self._is_given_up():
                    before = None
                    self._attempt += 1
                    self._deaths.clear()
                continue
            self._keep(answer)
            self._row = row
            return

    def _rebuild(self) -> Question:
        """Bring a new host to where the old one was; False when it gets somewhere else."""
        self._position = _AT_RESET
        if self.snapshot is not None:
            answer = yield Command(RESTORE, self.episode, snapshot=self.snapshot)
            if int(answer["status"]) == DONE:
                self.is_lost = False
                return True
        answer = yield Command(RESET, self.episode, self._attempt)
        for position, action in enumerate(self._actions):
            self._position = position
            answer = yield Command(STEP, action=action)
            if int(answer["status"]) == RAISED or bool(answer["terminated"]) or bool(answer["truncated"]):
                return False
        self.is_lost = False
        current = zip(self._block.names, self._block.targets(self.index), strict=True)
        return all(answer[f"obs/{name}"].tobytes() == target.tobytes() for name, target in current)

    def _may_rebuild(self) -> bool:
        return self.spec.restore != "none" or not self._actions

    def _is_given_up(self) -> bool:
        """Count a death where it happened; True when the episode should not be tried again."""
        self._died_since_a_step = True
        self._deaths[self._position] += 1
        deaths = self._deaths[self._position]
        if deaths < DEATHS_BEFORE_QUARANTINE and self._may_rebuild():
            return False
        times = "once, and env.restore is none" if deaths == 1 else f"{deaths} times"
        self._note(f"{self.where()}: its process died there {times}; the episode is given up")
        return True

    def _note(self, text: str) -> None:
        """A fault that only this side knows of."""
        self.faults.append(text)
        self.fault_count += 1

    def _keep(self, answer: Arrays) -> None:
        """Hold an answer until the rows are overwritten."""
        for name, array in self._arrived.items():
            array[...] = answer[f"obs/{name}"]
        self._ends = (float(answer["reward"]), bool(answer["terminated"]), bool(answer["truncated"]))
        self._metrics[:] = answer["metrics"]
        self.snapshot = read_snapshot(answer)
