"""A client's copies of a served environment, and what brings them back when the server was restarted.

Each lane's seed and actions since its reset are kept. A new session is brought to where the old one was by resetting
and stepping again, and each lane must then show the very observation it showed before; so a restart costs time and
changes nothing. Where that cannot be (``restore: none``, an environment that is not deterministic), ``CannotRestore``
is raised, and whoever steps these copies takes it as a fault of the environment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from whorl.envs.remote.connection import Connection, ServerGone, SessionLost
from whorl.envs.remote.layout import DONE, LEAVE, RESET, STEP, spec_from_wire
from whorl.envs.remote.messages import MOST_LANES, Malformed
from whorl.envs.same_spaces import difference
from whorl.errors import BadInputError
from whorl.types import Array, Arrays, EnvSpec

LOSSES_BEFORE_GIVING_UP = 3
"""Sessions lost at the same step before its episodes are given up: it may be the step that ends the server."""


class CannotRestore(Exception):
    """The server was restarted, and the episodes could not be brought back as they were."""


@dataclass
class _Episode:
    """What it takes to come back."""

    seed: int
    actions: list[Array] = field(default_factory=list)


class ServedCopies:
    """``lanes`` copies in one session, opened when first needed.

    The arrays that ``advance`` returns are those of the last answer: a lane that was left alone shows what it showed.
    """

    def __init__(self, connection: Connection, lanes: int, spec: EnvSpec | None = None) -> None:
        self.lanes, self.spec = lanes, spec
        self._connection = connection
        self._episodes: list[_Episode | None] = [None] * lanes
        self._last: Arrays = {}
        self._is_open, self._losses = False, 0
        self.most_copies: int | None = None
        """That the server has, for all its clients; unknown where it has more than one client may have."""

    def open(self) -> EnvSpec:
        """Connect; refuses a server with other spaces than those known."""
        welcome = self._connection.open(self.lanes)
        try:
            found = spec_from_wire(welcome.spec, self._connection.address)
        except (Malformed, BadInputError) as reason:
            raise ServerGone(f"{self._connection.address}: its spaces make no sense: {reason}") from None
        known = self.spec
        if known is not None and (differs := difference(known, found)):
            raise ServerGone(
                f"{self._connection.address}: the server there now serves {welcome.env}, with other spaces than at the "
                f"start: {differs}"
            )
        self.spec, self._is_open = known or found, True
        self.most_copies = welcome.most_lanes if welcome.most_lanes < MOST_LANES else None
        return self.spec

    def reset(self, seeds: Mapping[int, int]) -> tuple[Arrays, dict[int, str]]:
        """Reset some lanes and leave the others alone."""
        return self.advance(None, seeds, ())

    def advance(
        self, actions: Array | None, seeds: Mapping[int, int], stepped: Sequence[int]
    ) -> tuple[Arrays, dict[int, str]]:
        """Step some lanes, reset others, each with its seed; the answer's arrays and the words of lanes that failed."""
        asked = self._request(actions, seeds, stepped)
        while True:
            try:
                if not self._is_open:
                    self.open()
                    self._bring_back(without=seeds)
                answer, faults = self._connection.advance(asked)
                break
            except SessionLost as error:
                self._is_open = False
                self._losses += 1
                if self._losses >= LOSSES_BEFORE_GIVING_UP:
                    raise CannotRestore(f"{error}; that was loss {self._losses} at the same step") from None
        self._losses = 0
        self._note(asked, answer)
        return answer, faults

    def close(self) -> None:
        """Free the copies; never raises."""
        self._connection.close()

    def _request(self, actions: Array | None, seeds: Mapping[int, int], stepped: Sequence[int]) -> Arrays:
        if self.spec is None:
            self.open()
        assert self.spec is not None
        action = self.spec.action
        asked: Arrays = {
            "op": np.full(self.lanes, LEAVE, np.uint8),
            "seed": np.zeros(self.lanes, np.uint64),
            "action": np.zeros((self.lanes, *action.shape), action.dtype),
        }
        for lane in stepped:
            assert actions is not None
            asked["op"][lane], asked["action"][lane] = STEP, actions[lane]
        for lane, seed in seeds.items():
            asked["op"][lane], asked["seed"][lane] = RESET, seed
            asked["action"][lane] = 0
        return asked

    def _note(self, asked: Arrays, answer: Arrays) -> None:
        """Remember how each lane came to where it is now."""
        self._last = answer
        over = (answer["status"] != DONE) | (answer["terminated"] != 0) | (answer["truncated"] != 0)
        for lane, op in enumerate(asked["op"].tolist()):
            if op == LEAVE:
                continue
            episode = self._episodes[lane]
            if over[lane]:
                self._episodes[lane] = None
            elif op == RESET:
                self._episodes[lane] = _Episode(int(asked["seed"][lane]))
            elif episode is not None and not (episode.actions and self.spec and self.spec.restore == "none"):
                episode.actions.append(asked["action"][lane])

    def _bring_back(self, without: Mapping[int, int]) -> None:
        """Every lane that was amid an episode, and is not to be reset anyway, to where it was."""
        episodes = {i: episode for i, episode in enumerate(self._episodes) if episode and i not in without}
        if not episodes:
            return
        assert self.spec is not None
        longest = max(len(episode.actions) for episode in episodes.values())
        if longest and self.spec.restore == "none":
            raise CannotRestore("the server was restarted, and restore is none: episodes are not stepped again")
        shown = {i: self._shown(self._last, i) for i in episodes}
        answer, _ = self._connection.advance(self._request(None, {i: one.seed for i, one in episodes.items()}, ()))
        self._check(answer, list(episodes))
        for row in range(longest):
            stepped = [i for i, episode in episodes.items() if row < len(episode.actions)]
            actions = np.zeros((self.lanes, *self.spec.action.shape), self.spec.action.dtype)
            for i in stepped:
                actions[i] = episodes[i].actions[row]
            answer, _ = self._connection.advance(self._request(actions, {}, stepped))
            self._check(answer, stepped)
        for i in episodes:
            if self._shown(answer, i) != shown[i]:
                raise CannotRestore(f"lane {i}: the same seed and actions led elsewhere after the server's restart")

    def _check(self, answer: Arrays, lanes: Sequence[int]) -> None:
        over = (answer["status"] != DONE) | (answer["terminated"] != 0) | (answer["truncated"] != 0)
        for i in lanes:
            if over[i]:
                raise CannotRestore(f"lane {i}: its episode ended early when it was stepped again")

    def _shown(self, answer: Arrays, lane: int) -> bytes:
        assert self.spec is not None
        return b"".join(answer[f"obs/{leaf.name}"][lane].tobytes() for leaf in self.spec.observation)
