"""The arrays behind ``Rows`` and ``Outcome``: allocated once, written in place, the same for every form of lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from whorl.envs.contract import LaneState, Outcome, Rows
from whorl.envs.door import ObservationDoor, RefusedValue, refuse
from whorl.types import Array, Arrays, EnvSpec

_MAX_FLOAT32 = float(np.finfo(np.float32).max)


class RowBlock:
    """Rows and outcome of some lanes, and which of them begin an episode next."""

    def __init__(self, spec: EnvSpec, lanes: int) -> None:
        self.lanes = lanes
        self.blocks = [np.zeros((lanes, *leaf.shape), leaf.dtype) for leaf in spec.observation]
        self.names = [leaf.name for leaf in spec.observation]
        self.rows = Rows(
            observation=dict(zip(self.names, self.blocks, strict=True)),
            valid=np.ones(lanes, np.bool_),
            first=np.zeros(lanes, np.bool_),
        )
        self.outcome = Outcome(
            reward=np.zeros(lanes, np.float32),
            terminated=np.zeros(lanes, np.bool_),
            truncated=np.zeros(lanes, np.bool_),
            fault=np.zeros(lanes, np.bool_),
            metrics=np.full((lanes, len(spec.episode_metrics)), np.nan),
        )
        self.resetting = [False] * lanes
        """Lanes on a final-observation row: whatever action comes, they reset."""
        self._eventful = True
        self._passes: Callable[[], bool] | None = None
        self._door: ObservationDoor | None = None

    def targets(self, lane: int) -> list[Array]:
        """Where one lane's leaves go (arrays, for a scalar leaf too)."""
        return [block[lane, ...] for block in self.blocks]

    def clear(self) -> None:
        """Before a row: all valid, none first, nothing ended."""
        if self._eventful:
            self._eventful = False
            self.rows.valid.fill(True)
            self.rows.first.fill(False)
            self.outcome.terminated.fill(False)
            self.outcome.truncated.fill(False)
            self.outcome.fault.fill(False)
            self.outcome.metrics.fill(np.nan)

    def clear_lane(self, lane: int) -> None:
        """Before a row of one lane alone."""
        self.rows.valid[lane], self.rows.first[lane] = True, False
        outcome = self.outcome
        outcome.terminated[lane], outcome.truncated[lane], outcome.fault[lane] = False, False, False
        outcome.metrics[lane] = np.nan

    def ended(self, lane: int, terminated: bool, truncated: bool, metrics: Sequence[float] | Array = ()) -> None:
        """The step taken ended the episode; the row that follows holds its final observation."""
        self._eventful = True
        if len(metrics):
            self.outcome.metrics[lane] = metrics
        self.outcome.terminated[lane], self.outcome.truncated[lane] = terminated, truncated
        self.rows.valid[lane] = False
        self.resetting[lane] = True

    def began(self, lane: int, fault: bool = False) -> None:
        """The row that follows is the first of an episode; ``fault``: because the step raised."""
        self._eventful = True
        self.outcome.fault[lane] = fault
        self.rows.first[lane], self.rows.valid[lane] = True, True
        self.resetting[lane] = False

    def restore_final(self, lane: int, observation: Arrays) -> None:
        """A lane that stood on a final-observation row stands there again; its environment is not needed for that."""
        self.copy_observation(lane, observation)
        self.ended(lane, False, False)

    def copy_observation(self, lane: int, observation: Arrays) -> None:
        """The ledger's observation as the current one."""
        for name, block in zip(self.names, self.blocks, strict=True):
            block[lane] = observation[name]

    def observation_of(self, state: LaneState) -> list[Array]:
        """The ledger's observation, leaf by leaf in the spec's order."""
        assert state.observation is not None
        return [state.observation[name] for name in self.names]

    def check(self, door: ObservationDoor, rewards: Sequence[float]) -> tuple[int, RefusedValue] | None:
        """Take the rewards over and check the whole row; the lane and the reason when something is refused."""
        if self._door is not door:
            self._door, self._passes = door, door.row_check(self.blocks)
        assert self._passes is not None
        if not sum(map(abs, rewards)) < _MAX_FLOAT32:  # also when it is nan
            for lane, reward in enumerate(rewards):
                if not abs(reward) < _MAX_FLOAT32:
                    return lane, refuse("reward", "a finite float32", str(reward))
        self.outcome.reward[:] = rewards
        return None if self._passes() else door.explain(self.blocks)
