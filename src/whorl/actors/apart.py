"""A collector whose lanes live in processes of their own: each goes at its own pace, and whoever is ready is acted for.

A lane waits for others only where its trajectory has columns of theirs: at the end of it, until the last is full.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from whorl.actors.collector import ACTING, store_snapshot
from whorl.actors.remote_policy import RemotePolicy
from whorl.agents.contract import AgentSpec, Policy
from whorl.engines.contract import Clock, Wait
from whorl.engines.faults import FaultHook
from whorl.envs.contract import LaneState, Rows
from whorl.envs.hosted_lanes import HostedLanes
from whorl.ops.noise import uniform
from whorl.trajectory.layout import METRIC
from whorl.types import Array, Arrays, leaves_of

_NOISE_ROWS = 64
"""Rows whose noise is made at once, for one lane."""

_NEWER_THAN_ANY = np.iinfo(np.int64).max
"""The version of a row in which no lane has acted."""

Weights = Callable[[], tuple[Arrays, int]]
"""The weights to act with next, and their version."""


@dataclass
class _Filling:
    """A trajectory that some lanes are filling, a column each."""

    out: Arrays
    number: int
    observations: list[tuple[Array, Array]]
    """Where each leaf is stored, and where the lanes' current one is."""
    fields: list[tuple[str, Array]]
    unfinished: int


@dataclass
class _Lane:
    """How far a lane is."""

    index: int
    filling: _Filling
    column: int
    row: int
    noise: Array
    noise_row0: int


class ApartCollector:
    """Lanes, the policy's recurrent state for them, and how far each of them is.

    >>> collector.open(0, range(0, 4), trajectory, number)       # doctest: +SKIP
    >>> full = yield from collector.advance(weights)             # doctest: +SKIP
    """

    def __init__(
        self,
        spec: AgentSpec,
        policy: Policy | RemotePolicy,
        envs: HostedLanes,
        seed: int,
        clock: Clock,
        strike: FaultHook | None = None,
    ) -> None:
        self._spec, self._policy, self._envs = spec, policy, envs
        self._seed, self._clock, self._strike = seed, clock, strike
        nobody = _Filling({}, 0, [], [], 0)
        self._lanes = [_Lane(i, nobody, 0, 0, np.zeros((0, 0), np.float32), 0) for i in range(len(envs.lanes))]
        self._ready: list[_Lane] = []
        """Whose current observation has not been acted on."""
        self._rows: Rows
        self._state: Arrays

    def begin(self, states: list[LaneState], recurrent: Arrays) -> Generator[Wait, None, None]:
        """Bring every lane to where the ledger says it stands."""
        self._rows = yield from self._envs.start(states)
        self._state = {name: array.copy() for name, array in recurrent.items()}
        self._ready = []

    def fill(self, out: Arrays, weights: Arrays, version: int, number: int) -> Generator[Wait, None, None]:
        """One trajectory of all lanes, with this version of the weights."""
        self.open(range(len(self._lanes)), out, number)
        yield from self.advance(lambda: (weights, version))

    def open(self, columns: range, out: Arrays, number: int) -> None:
        """Have some lanes (by their place here) fill a trajectory."""
        observations = [(out[f"obs/{name}"], array) for name, array in self._rows.observation.items()]
        fields = [(field.name, out[field.name]) for field in self._spec.fields]
        filling = _Filling(out, number, observations, fields, len(columns))
        out["number"][0] = number
        out["version"][:] = _NEWER_THAN_ANY
        out["end/exact"][0] = True
        for name, array in leaves_of(out, "state/").items():
            array[:] = self._state[name][columns.start : columns.stop]
        for column, index in enumerate(columns):
            lane = self._lanes[index]
            lane.filling, lane.column, lane.row = filling, column, 0
            self._ready.append(lane)

    def advance(self, weights: Weights) -> Generator[Wait, None, list[Arrays]]:
        """Act for whoever is ready, until trajectories are full; returns them."""
        envs = self._envs
        full: list[Arrays] = []
        while not full:
            if self._ready:
                ready, self._ready = self._ready, []
                yield from self._act(ready, weights)
            self._clock.enter("environment")
            while not (arrived := envs.arrived()):
                yield envs.wait_for_any()
            for index in arrived:
                lane = self._lanes[index]
                self._store_outcome(lane)
                if lane.row < self._spec.rows:
                    self._ready.append(lane)
                    continue
                self._finish(lane)
                if not lane.filling.unfinished:
                    full.append(lane.filling.out)
        self._clock.enter("transfer")
        return full

    def _act(self, ready: list[_Lane], weights: Weights) -> Generator[Wait, None, None]:
        at = np.array([lane.index for lane in ready])
        rows = self._rows
        observation = {name: array[at] for name, array in rows.observation.items()}
        state = {name: array[at] for name, array in self._state.items()}
        noise = np.stack([self._noise_of(lane) for lane in ready])
        self._clock.enter("inference")
        if isinstance(self._policy, RemotePolicy):
            acted, version = yield from self._policy.act(observation, state, rows.first[at], noise)
        else:
            views, version = weights()
            measure = self._spec.exploration
            if measure and views[measure].ndim:  # given for each lane
                views = {**views, measure: views[measure][at]}
            acted = self._policy.act(views, observation, state, rows.first[at], noise)
        for name, array in acted.state.items():
            self._state[name][at] = array
        for i, lane in enumerate(ready):
            self._store_row(lane, version)
            out, row, column = lane.filling.out, lane.row, lane.column
            out["action"][row, column] = acted.actions[i]
            for name, stored in lane.filling.fields:
                stored[row, column] = acted.fields[name][i]
            if self._strike is not None:
                self._strike("env_step", lane.filling.number * self._spec.rows + row)
            self._envs.send_to(lane.index, acted.actions[i])

    def _store_row(self, lane: _Lane, version: int) -> None:
        """What is known before the action."""
        filling, row, column, index = lane.filling, lane.row, lane.column, lane.index
        for stored, current in filling.observations:
            stored[row, column] = current[index]
        filling.out["first"][row, column] = self._rows.first[index]
        filling.out["valid"][row, column] = self._rows.valid[index]
        if row < self._spec.rows:
            filling.out["version"][row] = min(version, filling.out["version"][row])  # the oldest of any lane

    def _store_outcome(self, lane: _Lane) -> None:
        """What the action led to."""
        out, row, column, outcome = lane.filling.out, lane.row, lane.column, self._envs.outcome
        out["reward"][row, column] = outcome.reward[lane.index]
        out["terminated"][row, column] = outcome.terminated[lane.index]
        out["truncated"][row, column] = outcome.truncated[lane.index]
        for metric, told in zip(leaves_of(out, METRIC).values(), outcome.metrics[lane.index], strict=True):
            metric[row, column] = told
        if outcome.fault[lane.index]:
            out["valid"][row, column] = False
        self._clock.count(int(out["valid"][row, column]))
        lane.row += 1

    def _finish(self, lane: _Lane) -> None:
        """The bootstrap row, and where the lane stands after it."""
        self._store_row(lane, 0)
        out, column = lane.filling.out, lane.column
        out["end/episode"][column] = self._envs.episodes[lane.index]
        out["end/exact"][0] &= self._envs.exact
        for name, array in leaves_of(out, "end/state/").items():
            array[column] = self._state[name][lane.index]
        store_snapshot(out, column, self._envs.snapshot_of(lane.index))
        lane.filling.unfinished -= 1

    def _noise_of(self, lane: _Lane) -> Any:
        """The noise of a lane's row."""
        row = lane.filling.number * self._spec.rows + lane.row
        if not lane.noise_row0 <= row < lane.noise_row0 + len(lane.noise):
            number = np.array([self._envs.lanes[lane.index]])
            lane.noise_row0 = row
            lane.noise = uniform(self._seed, ACTING, number, row, _NOISE_ROWS, self._spec.noise_width)[:, 0]
        return lane.noise[row - lane.noise_row0]
