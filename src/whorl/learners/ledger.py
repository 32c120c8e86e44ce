"""The ledger: where every lane stood after the last trajectory that was learnt from.

It is all that is needed to rebuild a lost actor's environments, or a whole run's after a resume: per lane the episode,
its actions since reset, the recurrent state and the current observation. It changes only when a batch is accepted, so a
trajectory that never arrived leaves no trace. The same pass over the rows yields the episodes that ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from whorl.agents.contract import AgentSpec
from whorl.envs.contract import LaneState
from whorl.job import Job
from whorl.trajectory.layout import env_steps_of
from whorl.trajectory.orders import pack_lane_states, unpack_lane_states
from whorl.types import Array, Arrays, EnvSpec, leaves_of


class EpisodeEnd(NamedTuple):
    """An episode that ended by itself (not by a fault)."""

    row: int
    lane: int
    episode_return: float
    length: int


@dataclass
class Accepted:
    """What accepting a trajectory brought."""

    env_steps: int
    episodes: list[EpisodeEnd]
    faults: int
    discounted_return: Array | None
    """[T, B] running discounted sum of rewards within each lane's episode, where the agent wants it."""


class Ledger:
    """The lanes of one strand."""

    def __init__(self, lanes: range, env: EnvSpec, agent: AgentSpec) -> None:
        self.lanes = lanes
        self.number = 0
        """Of the trajectory expected next."""
        self.exact = True
        self._env = env
        self._discount, self._traces = agent.discount, agent.wants_discounted_return
        self._rows = agent.rows
        self._states = [LaneState(lane) for lane in lanes]
        self._actions: list[list[Array]] = [[] for _ in lanes]  # in pieces, joined when somebody asks
        self._recurrent: Arrays = {f.name: np.zeros((len(lanes), *f.shape), f.dtype) for f in agent.state}
        self._episode_return = np.zeros(len(lanes))
        self._episode_length = np.zeros(len(lanes), np.int64)
        self._discounted = np.zeros(len(lanes), np.float32)

    def accept(self, trajectory: Arrays) -> Accepted:
        """Move every lane to the end of this trajectory."""
        rows = trajectory["reward"].shape[0]
        first = trajectory["first"]
        ended_before = np.array([state.ended for state in self._states])
        observation = {name: array[-1].copy() for name, array in leaves_of(trajectory, "obs/").items()}
        for i, state in enumerate(self._states):
            self._move(i, state, trajectory, rows)
            state.observation = {name: array[i] for name, array in observation.items()}
        self._recurrent = {name: array.copy() for name, array in leaves_of(trajectory, "end/state/").items()}
        self.exact = self.exact and bool(trajectory["end/exact"][0])
        self.number = int(trajectory["number"][0]) + 1
        episodes, faults = self._episodes(trajectory, rows, ended_before)
        return Accepted(
            env_steps=env_steps_of(trajectory),
            episodes=episodes,
            faults=faults,
            discounted_return=self._trace(trajectory["reward"], first) if self._traces else None,
        )

    def _move(self, i: int, state: LaneState, trajectory: Arrays, rows: int) -> None:
        starts = np.flatnonzero(trajectory["first"][:, i])
        begin = int(starts[-1]) if len(starts) else 0
        if len(starts):
            self._actions[i] = []
        stepped = trajectory["valid"][begin:rows, i]
        if stepped.any():
            pieces = self._actions[i]
            pieces.append(trajectory["action"][begin:rows, i][stepped].copy())
            if self._env.restore == "none":  # whether there were any is all that matters
                pieces[:] = [pieces[-1][-1:]]
        state.episode = int(trajectory["end/episode"][i])
        state.ended = not trajectory["valid"][rows, i]
        length = int(trajectory["end/snapshot_length"][i])
        state.snapshot = trajectory["end/snapshot"][i, :length].tobytes() if length else None
        state.skip = 0

    def _episodes(self, trajectory: Arrays, rows: int, ended_before: Array) -> tuple[list[EpisodeEnd], int]:
        valid = trajectory["valid"][:rows]
        ended = (trajectory["terminated"] | trajectory["truncated"]) & valid
        # A first row follows a final-observation row, or a fault: a row that is not valid though none ended before it.
        cut = trajectory["first"][1 : rows + 1] & ~valid
        cut[1:] &= ~ended[:-1]
        cut[0] &= ~ended_before
        anew = trajectory["first"][0]
        self._episode_return[anew] = 0.0
        self._episode_length[anew] = 0
        reward_sum = np.cumsum(np.where(valid, trajectory["reward"], 0.0), axis=0, dtype=np.float64)
        step_sum = np.cumsum(valid, axis=0)
        episodes: list[EpisodeEnd] = []
        faults = 0
        for row, i in zip(*np.nonzero(ended | cut), strict=True):
            if ended[row, i]:
                total = self._episode_return[i] + reward_sum[row, i]
                length = self._episode_length[i] + step_sum[row, i]
                episodes.append(EpisodeEnd(int(row), self.lanes[i], float(total), int(length)))
            else:
                faults += 1
            self._episode_return[i] = -reward_sum[row, i]
            self._episode_length[i] = -step_sum[row, i]
        self._episode_return += reward_sum[-1]
        self._episode_length += step_sum[-1]
        return episodes, faults

    def _trace(self, reward: Array, first: Array) -> Array:
        trace = np.empty_like(reward)
        running = self._discounted
        for row in range(len(reward)):
            running = np.where(first[row], 0.0, running * self._discount).astype(np.float32) + reward[row]
            trace[row] = running
        self._discounted = running
        return trace

    def give_up(self, lane: int, times: int = 1) -> None:
        """Have this lane begin another episode instead of stepping its actions again. The deadly one may be any that
        began within the trajectory that was lost, so as many are left out as could begin in its rows."""
        self._states[lane - self.lanes.start].skip = times * (1 + self._rows)

    def copy(self) -> Ledger:
        """A ledger that can go ahead of this one."""
        other = object.__new__(Ledger)
        other.__dict__.update(self.__dict__)
        other._states = [LaneState(**vars(state)) for state in self._states]
        other._actions = [list(pieces) for pieces in self._actions]
        other._episode_return = self._episode_return.copy()
        other._episode_length = self._episode_length.copy()
        return other

    def after(self, arrived: Iterable[Arrays]) -> Ledger:
        """Where the lanes will stand after trajectories that are not accepted yet."""
        ledger = self.copy()
        for trajectory in arrived:
            if int(trajectory["number"][0]) == ledger.number:
                ledger.accept(trajectory)
        return ledger

    def order(self) -> Arrays:
        """What an actor needs to start these lanes where they stand."""
        shape = (0, *self._env.action.shape)
        for state, pieces in zip(self._states, self._actions, strict=True):
            joined = np.concatenate(pieces) if pieces else np.zeros(shape, self._env.action.dtype)
            pieces[:] = [joined] if len(joined) else []
            state.actions = joined
        return {
            **pack_lane_states(self._states, self._env),
            **{f"state/{name}": array for name, array in self._recurrent.items()},
            "number": np.full(len(self.lanes), self.number, np.int64),
        }

    def save(self) -> Arrays:
        """Everything, as named arrays for a checkpoint."""
        return {
            **self.order(),
            "exact": np.array([self.exact]),
            "episode_return": self._episode_return.copy(),
            "episode_length": self._episode_length.copy(),
            "discounted": self._discounted.copy(),
        }

    def load(self, arrays: Mapping[str, Array]) -> None:
        """The inverse of ``save``, for the same lanes (see ``join_saved`` and ``cut_saved`` for others)."""
        self._states = unpack_lane_states(arrays, self._env)
        self._actions = [[state.actions] if len(state.actions) else [] for state in self._states]
        self._recurrent = leaves_of(arrays, "state/")
        self.number = int(arrays["number"].max())  # the same for all, unless they had different actors before
        self.exact = bool(arrays["exact"][0])
        self._episode_return = arrays["episode_return"].copy()
        self._episode_length = arrays["episode_length"].copy()
        self._discounted = arrays["discounted"].copy()


_IN_PIECES = {"actions": "action_count", "snapshots": "snapshot_length"}
"""Saved fields that hold all lanes' pieces one after the other, and the field with the pieces' lengths."""
_COMMON = ("exact",)
"""Saved fields that hold one value for all lanes."""


def join_saved(saved: list[Arrays]) -> Arrays:
    """The saved ledgers of neighbouring lanes as one, so that a checkpoint does not depend on the number of actors."""
    joined = {name: np.concatenate([part[name] for part in saved]) for name in saved[0] if name not in _COMMON}
    return {**joined, "exact": np.array([all(part["exact"][0] for part in saved)])}


def make_ledgers(job: Job, actors: Iterable[int]) -> dict[int, Ledger]:
    """A ledger for each strand of some actors, by the number of the strand."""
    lanes = job.lane_map
    strands = [strand for actor in actors for strand in lanes.strands_of_actor(actor)]
    return {strand: Ledger(lanes.lanes_of_strand(strand), job.env, job.agent_spec) for strand in strands}


def own(strand: int, arrived: Iterable[Arrays]) -> list[Arrays]:
    """Those of the trajectories that are of a strand."""
    return [trajectory for trajectory in arrived if int(trajectory["strand"][0]) == strand]


def join_orders(ledgers: list[Ledger]) -> Arrays:
    """The start order of an actor: those of its strands as one."""
    orders = [ledger.order() for ledger in ledgers]
    return {name: np.concatenate([order[name] for order in orders]) for name in orders[0]}


def cut_saved(saved: Arrays, lanes: range) -> Arrays:
    """The part of a saved ledger that belongs to these lanes."""
    at = slice(*np.searchsorted(saved["lane"], [lanes.start, lanes.stop]))
    part: Arrays = {}
    for name, array in saved.items():
        if name in _COMMON:
            part[name] = array
        elif name in _IN_PIECES:
            ends = np.concatenate([[0], np.cumsum(saved[_IN_PIECES[name]])])
            part[name] = array[ends[at.start] : ends[at.stop]]
        else:
            part[name] = array[at]
    return part
