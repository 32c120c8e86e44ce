"""Made-up lanes: streams of rows as an actor would write them, with a plain account of what is in them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from whorl.agents.contract import AgentSpec
from whorl.envs.contract import LaneState
from whorl.trajectory.layout import trajectory_layout
from whorl.types import ActionSpec, Arrays, EnvSpec, Field, Layout, ObservationLeaf

ENV = EnvSpec(
    env_id="made-up",
    observation=(ObservationLeaf("obs", "vector", (2,), "float32"),),
    action=ActionSpec("discrete", (), "int64", nvec=(5,)),
    restore="replay",
    vector_form=False,
    max_episode_steps=1000,
)
AGENT = AgentSpec(
    fields=(Field("log_prob", (), "float32"),),
    state=(Field("h", (3,), "float32"),),
    weights=Layout((Field("w", (1,), "float32"),)),
    contribution=Layout((Field("sums", (1,), "float64"),)),
    noise_width=1,
    rows=6,
    discount=0.9,
)


@dataclass
class MadeUpLane:
    """One lane that follows a script of ``"step"``, ``"end"`` and ``"fault"``, and keeps its own books."""

    lane: int
    script: list[str]
    episode: int = 0
    actions: list[int] = field(default_factory=list)
    ended: bool = False
    row: int = 0
    total: float = 0.0
    finished: list[tuple[float, int]] = field(default_factory=list)
    faults: int = 0
    steps: int = 0

    def observation(self) -> np.ndarray:
        return np.array([self.lane, self.row], np.float32)

    @property
    def first(self) -> bool:
        return not self.actions and not self.ended

    def advance(self) -> tuple[bool, bool, bool, int, float, bool, bool]:
        """(first, valid, fault, action, reward, terminated, truncated) of the current row; then the next row."""
        first, valid = self.first, not self.ended
        action, reward = (self.row * 7 + self.lane) % 5, float((self.row * 3 + self.lane) % 4)
        self.row += 1
        if self.ended:
            self._begin()
            return first, False, False, action, 0.0, False, False
        event = self.script.pop(0) if self.script else "step"
        if event == "fault":
            self.faults += 1
            self._begin()
            return first, valid, True, action, 0.0, False, False
        self.actions.append(action)
        self.total += reward
        self.steps += 1
        if event == "end":
            self.finished.append((self.total, len(self.actions)))
            self.ended = True
        return (
            first,
            True,
            False,
            action,
            reward,
            event == "end" and self.lane % 2 == 0,
            event == "end" and self.lane % 2 == 1,
        )

    def give_up(self) -> None:
        """Begin another episode where it stands: the row it stands on is the first of it."""
        self.faults += bool(self.actions) and not self.ended
        self._begin()

    def _begin(self) -> None:
        self.episode += 1
        self.actions, self.ended, self.total = [], False, 0.0

    def state(self) -> LaneState:
        return LaneState(
            self.lane, self.episode, np.array(self.actions, np.int64), self.ended, {"obs": self.observation()}
        )


def write_trajectory(lanes: list[MadeUpLane], number: int) -> Arrays:
    """The next rows of all lanes."""
    layout = trajectory_layout(ENV, rows=AGENT.rows, lanes=len(lanes), fields=AGENT.fields, state=AGENT.state)
    out = layout.views(layout.allocate())
    out["begin/episode_return"][:], out["begin/episode_length"][:] = _sums(lanes)
    for row in range(AGENT.rows + 1):
        for i, lane in enumerate(lanes):
            out["obs/obs"][row, i] = lane.observation()
            if row == AGENT.rows:
                out["first"][row, i], out["valid"][row, i] = lane.first, not lane.ended
                continue
            first, valid, fault, action, reward, terminated, truncated = lane.advance()
            out["first"][row, i], out["valid"][row, i] = first, valid and not fault
            out["action"][row, i], out["reward"][row, i] = action, reward
            out["terminated"][row, i], out["truncated"][row, i] = terminated, truncated
    out["end/episode_return"][:], out["end/episode_length"][:] = _sums(lanes)
    out["env_steps"][0] = np.count_nonzero(out["valid"][: AGENT.rows])
    out["number"][0] = number
    out["end/exact"][0] = True
    out["end/episode"][:] = [lane.episode for lane in lanes]
    out["end/state/h"][:] = number
    return out


def _sums(lanes: list[MadeUpLane]) -> tuple[list[float], list[int]]:
    """Returns and lengths so far, as an actor stamps them."""
    under_way = [(0.0, 0) if lane.ended else (lane.total, len(lane.actions)) for lane in lanes]
    return [total for total, _ in under_way], [length for _, length in under_way]
