"""Lanes in this process: scalar copies of an environment, and the choice among all forms."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np

from whorl.config.schema import EnvConfig
from whorl.envs.contract import LaneEnvs, LaneState, Outcome, Rows
from whorl.envs.deadline import NoClock, StepClock, StepDeadline
from whorl.envs.lane import Lane, StepRaised
from whorl.envs.row_block import RowBlock
from whorl.types import Array, EnvSpec

_SLOW_STEP_S = 50e-6
"""Above this a call of the clock for each lane costs nothing that matters."""


def make_lanes(config: EnvConfig, spec: EnvSpec, lanes: range, seed: int, clock: StepClock | None = None) -> LaneEnvs:
    """Environments in this process, in the form the spec was probed for; never chosen by their number."""
    if spec.vector_form:
        from whorl.envs.vector import VectorLanes

        return VectorLanes(config, spec, lanes, seed, clock)
    return ScalarLanes(config, spec, lanes, seed, clock)


class ScalarLanes:
    """A list of environments, stepped one after the other."""

    def __init__(
        self, config: EnvConfig, spec: EnvSpec, lanes: range, seed: int, clock: StepClock | None = None
    ) -> None:
        self.spec, self.lanes, self.exact = spec, lanes, True
        self._envs = [Lane(config, spec, seed, lane) for lane in lanes]
        self._block = RowBlock(spec, len(lanes))
        for index, env in enumerate(self._envs):
            env.bind(self._block.targets(index))
        self._actions = np.zeros((len(lanes), *spec.action.shape), spec.action.dtype)
        self._deadline = StepDeadline(config.step_timeout_s)
        self._clock = clock or NoClock()
        # A clock may offer `at(where)`, a bare store of the lane; `enter` for each lane is for slow steps only.
        self._at: Callable[[int], None] | None = getattr(clock, "at", None)
        self._enters_each_lane = clock is not None and self._at is None

    def start(self, states: Sequence[LaneState]) -> Generator[Any, None, Rows]:
        """Make, reset or rebuild every lane."""
        yield from ()
        for index, (lane, state) in enumerate(zip(self._envs, states, strict=True)):
            self._clock.enter("environment", self._deadline.seconds * (1 + len(state.actions)), lane.index)
            started_s = time.perf_counter()
            self._restore(index, lane, state)
            if len(state.actions) == 0:  # a deadline learnt from steps alone would take a slow reset for a hang
                self._deadline.saw(time.perf_counter() - started_s, steps=0)
        refused = self._block.check(self._envs[0].door, [0.0] * len(self._envs))
        if refused is not None:
            raise self._envs[refused[0]].refusal(refused[1])
        return self._block.rows

    def send(self, actions: Array) -> None:
        """Keep the actions; environments in this process step in ``receive``, so rows stay as they are until then."""
        self._actions[...] = actions

    def arrival(self) -> Generator[Any, None, None]:
        """Nothing to wait for."""
        yield from ()

    def receive(self) -> Outcome:
        """Step every lane."""
        block, clock, deadline_s, at = self._block, self._clock, self._deadline.seconds, self._at
        block.clear()
        rewards = [0.0] * block.lanes
        actions = self._envs[0].actions_for_env(self._actions)
        resetting, enters_each_lane = block.resetting, self._enters_each_lane
        started_s = time.perf_counter()
        clock.enter("environment", deadline_s, self.lanes[0])
        for index, (lane, action) in enumerate(zip(self._envs, actions, strict=True)):
            if at is not None:
                at(lane.index)
            elif enters_each_lane:
                clock.enter("environment", deadline_s, lane.index)
            if resetting[index]:
                lane.begin(lane.episode + 1)
                block.began(index)
                continue
            try:
                rewards[index], terminated, truncated = lane.step(action)
            except StepRaised:
                lane.begin(lane.episode + 1)
                block.began(index, fault=True)
                continue
            if terminated or truncated:
                block.ended(index, terminated, truncated, lane.metrics)
        duration_s = time.perf_counter() - started_s
        self._deadline.saw(duration_s, block.lanes)
        self._enters_each_lane = self._at is None and duration_s > _SLOW_STEP_S * block.lanes
        refused = block.check(self._envs[0].door, rewards)
        if refused is not None:
            raise self._envs[refused[0]].refusal(refused[1])
        return block.outcome

    def snapshots(self) -> list[bytes] | None:
        """Each lane's saved state where the environment offers one."""
        if self.spec.restore != "snapshot":
            return None
        found = [lane.snapshot() for lane in self._envs]
        saved = [snapshot for snapshot in found if snapshot is not None]
        return saved if len(saved) == len(found) else None

    def close(self) -> None:
        """Close every environment; never raises, never hangs."""
        for lane in self._envs:
            lane.close()

    @property
    def episodes(self) -> list[int]:
        """Number of each lane's current episode."""
        return [lane.episode for lane in self._envs]

    @property
    def fault_count(self) -> int:
        """Faults of all lanes so far."""
        return sum(lane.fault_count for lane in self._envs)

    @property
    def faults(self) -> deque[str]:
        """The latest faults of all lanes, for the log."""
        return deque((text for lane in self._envs for text in lane.faults), maxlen=20)

    def _restore(self, index: int, lane: Lane, state: LaneState) -> None:
        """As the ledger says; where that cannot be, the next episode, and the run is no longer exact."""
        block = self._block
        if state.skip:
            self.exact = False
            lane.begin(state.episode + state.skip)
            block.began(index)
        elif state.observation is None:
            lane.begin(state.episode)
            block.began(index)
        elif state.ended:
            # What comes next may depend on what has been: a game goes on after the loss of a life.
            if self.spec.restore != "snapshot" or not state.snapshot or not lane.restore(state.episode, state.snapshot):
                lane.prepare(state.episode)
            block.restore_final(index, state.observation)
        elif self._brought_back(lane, state):
            block.copy_observation(index, state.observation)
            if len(state.actions) == 0:
                block.began(index)
        else:
            self.exact = False
            lane.begin(state.episode + 1)
            block.began(index)

    def _brought_back(self, lane: Lane, state: LaneState) -> bool:
        if self.spec.restore == "none" and len(state.actions) > 0:
            return False
        if self.spec.restore == "snapshot" and state.snapshot is not None:
            return lane.restore(state.episode, state.snapshot)
        return lane.replay(state.episode, state.actions, self._block.observation_of(state))
