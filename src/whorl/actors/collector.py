"""A collector acts on its lanes and fills trajectories, row by row, for every workflow that acts with a model."""

from __future__ import annotations

from collections.abc import Generator
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from whorl.actors.remote_policy import RemotePolicy
from whorl.agents.contract import AgentSpec, Policy
from whorl.engines.contract import Clock, Wait
from whorl.engines.faults import FaultHook
from whorl.engines.waits import BREATH, BREATH_EVERY_S
from whorl.envs.contract import LaneEnvs, LaneState, Rows
from whorl.ops.noise import uniform
from whorl.trajectory.layout import METRIC
from whorl.types import Arrays, leaves_of

ACTING = "acting"
"""The purpose word of acting noise: other purposes draw other numbers from the same seed."""
_NOISE_ROWS = 64
"""Rows whose noise is made at once, at least."""


class Collector:
    """Lanes, the policy's recurrent state for them, and how far they are.

    >>> collector = Collector(spec, policy, envs, seed, clock)         # doctest: +SKIP
    >>> yield from collector.begin(states, recurrent_state)            # doctest: +SKIP
    >>> yield from collector.fill(trajectory, weights, version, number)  # doctest: +SKIP
    """

    def __init__(
        self,
        spec: AgentSpec,
        policy: Policy | RemotePolicy,
        envs: LaneEnvs,
        seed: int,
        clock: Clock,
        strike: FaultHook | None = None,
    ) -> None:
        self._spec = spec
        self._policy = policy
        self._envs = envs
        self._seed = seed
        self._clock = clock
        self._strike = strike
        self._noise = np.zeros((0, 0, 0), np.float32)
        self._noise_row0 = 0
        """The row that ``_noise`` begins with."""
        self._rows: Rows
        self._state: Arrays

    def begin(self, states: list[LaneState], recurrent: Arrays) -> Generator[Wait, None, None]:
        """Bring every lane to where the ledger says it stands."""
        self._rows = yield from self._envs.start(states)
        self._state = {name: array.copy() for name, array in recurrent.items()}

    def fill(self, out: Arrays, weights: Arrays, version: int, number: int) -> Generator[Wait, None, None]:
        """Act for T rows into ``out`` (a trajectory's arrays) with this version of the weights; a remote policy has its
        own."""
        spec, rows, envs, policy, enter = self._spec, self._rows, self._envs, self._policy, self._clock.enter
        row_count, strike, count, count_nonzero = spec.rows, self._strike, self._clock.count, np.count_nonzero
        row0 = number * row_count
        noise = self._noise_for(row0)
        observations = [(out[f"obs/{name}"], array) for name, array in rows.observation.items()]
        fields = [(field.name, out[field.name]) for field in spec.fields]
        first, valid, actions, reward = out["first"], out["valid"], out["action"], out["reward"]
        terminated, truncated, versions = out["terminated"], out["truncated"], out["version"]
        metrics = list(leaves_of(out, METRIC).values())
        versions[:] = version
        state = self._state
        for name, array in state.items():
            out[f"state/{name}"][:] = array
        breathes_at = monotonic() + BREATH_EVERY_S
        for row in range(row_count):
            for stored, array in observations:
                stored[row] = array
            first[row] = rows.first
            valid[row] = rows.valid
            enter("inference")
            if not isinstance(policy, RemotePolicy):
                acted = policy.act(weights, rows.observation, state, rows.first, noise[row])
            else:
                acted, versions[row] = yield from policy.act(rows.observation, state, rows.first, noise[row])
            state = acted.state
            actions[row] = acted.actions
            for name, stored in fields:
                stored[row] = acted.fields[name]
            if strike is not None:
                strike("env_step", row0 + row)
            enter("environment")
            envs.send(acted.actions)
            yield from envs.arrival()
            outcome = envs.receive()
            reward[row] = outcome.reward
            terminated[row] = outcome.terminated
            truncated[row] = outcome.truncated
            for column, metric in enumerate(metrics):
                metric[row] = outcome.metrics[:, column]
            if outcome.fault.any():
                valid[row] &= ~outcome.fault
            count(int(count_nonzero(valid[row])))
            if monotonic() > breathes_at:
                yield BREATH
                breathes_at = monotonic() + BREATH_EVERY_S
        enter("transfer")
        self._state = state
        self._finish(out, number, row_count)

    def _noise_for(self, row0: int) -> NDArray[np.float32]:
        """The noise of a trajectory's rows. Those of several short ones are made at once, which takes hardly longer."""
        rows = self._spec.rows
        if not 0 <= row0 - self._noise_row0 <= len(self._noise) - rows:
            lanes = np.arange(self._envs.lanes.start, self._envs.lanes.stop)
            ahead = -(-_NOISE_ROWS // rows) * rows
            self._noise_row0 = row0
            self._noise = uniform(self._seed, ACTING, lanes, row0, ahead, self._spec.noise_width)
        return self._noise[row0 - self._noise_row0 :]

    def _finish(self, out: Arrays, number: int, row_count: int) -> None:
        """The bootstrap row, and where the lanes stand after it."""
        for name, array in self._rows.observation.items():
            out[f"obs/{name}"][row_count] = array
        out["first"][row_count] = self._rows.first
        out["valid"][row_count] = self._rows.valid
        out["number"][0] = number
        out["end/episode"][:] = self._envs.episodes
        out["end/exact"][0] = self._envs.exact
        for name, array in self._state.items():
            out[f"end/state/{name}"][:] = array
        self._store_snapshots(out)

    def _store_snapshots(self, out: Arrays) -> None:
        out["end/snapshot_length"][:] = 0
        for column, snapshot in enumerate(self._envs.snapshots() or ()):
            store_snapshot(out, column, snapshot)


def store_snapshot(out: Arrays, column: int, snapshot: bytes | None) -> None:
    """A lane's saved state at the end of a trajectory. One that outgrew its room is rebuilt by other means."""
    fits = snapshot is not None and len(snapshot) <= out["end/snapshot"].shape[1]
    out["end/snapshot_length"][column] = len(snapshot) if snapshot is not None and fits else 0
    if snapshot is not None and fits:
        out["end/snapshot"][column, : len(snapshot)] = np.frombuffer(snapshot, np.uint8)
