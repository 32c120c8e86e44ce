"""What is counted when actors that nobody has followed are lost again and again before they hand anything over."""

from __future__ import annotations

from typing import Any

import numpy as np

from made_up_rows import AGENT, ENV, MadeUpLane, write_trajectory
from whorl.learners.ledger import Ledger
from whorl.learners.owned_actors import OwnedActors
from whorl.types import Array, Arrays, Field, Layout


class WrittenDown:
    """A board on which an actor wrote one trajectory down."""

    def __init__(self, trajectory: Arrays) -> None:
        fields = (Field(name, array.shape, str(array.dtype)) for name, array in trajectory.items())
        self.layout = Layout(tuple(fields))
        self.version = int(trajectory["number"][0])
        self._trajectory = trajectory

    def read(self, buffer: Array) -> int:
        for name, array in self.layout.views(buffer).items():
            array[...] = self._trajectory[name]
        return self.version


class Heard:
    """A line that keeps what was sent."""

    def __init__(self) -> None:
        self.lost: list[int] = []
        self.skips: list[list[int]] = []

    def send(self, kind: str, body: Any, to: Any = None) -> None:
        if kind == "lost_env_steps":
            self.lost.append(body["env_steps"])
        else:
            self.skips.append(body["skip"].tolist())


def loss(incarnation: int, counted: int) -> dict[str, Any]:
    return {"index": 0, "incarnation": incarnation, "counted": counted, "cause": "killed"}


def owned_by_one(hand_overs: int) -> tuple[OwnedActors, Heard, int]:
    """One actor with two lanes amid their episodes, which has written down its first trajectory; and the trajectory's
    env steps."""
    trajectory = write_trajectory([MadeUpLane(lane, []) for lane in range(2)], 0)
    trajectory["handed_over"][0] = env_steps = int(trajectory["env_steps"][0])
    trajectory["hand_overs"] = np.array([hand_overs])
    line, ledgers = Heard(), {0: Ledger(range(2), ENV, AGENT)}
    return OwnedActors(line, {0: range(1)}, ledgers, {0: WrittenDown(trajectory)}), line, env_steps  # type: ignore[arg-type, dict-item]


def test_an_episode_that_was_left_is_counted_once() -> None:
    owned, line, env_steps = owned_by_one(hand_overs=1)
    assert owned.lost(loss(1, env_steps + 5), hand_overs=1) == 2
    owned.look()  # a checkpoint is saved
    assert owned.lost(loss(2, 3), hand_overs=1) == 0
    assert owned.lost(loss(3, 0), hand_overs=1) == 0
    assert line.lost == [5, 3, 0]
    assert line.skips == [[times * (1 + AGENT.rows)] * 2 for times in (1, 2, 3)]


def test_what_was_written_down_and_not_handed_over_is_lost_once() -> None:
    owned, line, env_steps = owned_by_one(hand_overs=1)
    owned.lost(loss(1, env_steps), hand_overs=0)
    owned.lost(loss(2, 4), hand_overs=0)
    assert line.lost == [env_steps, 4]
