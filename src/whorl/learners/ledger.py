"""The ledger: where every lane stood after the last trajectory that was learnt from.

It is all that is needed to rebuild a lost actor's environments, or a whole run's after a resume: per lane the episode,
its actions since reset, the recurrent state and the current observation. It changes only when a batch is accepted, so a
trajectory that never arrived leaves no trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from whorl.agents.contract import AgentSpec
from whorl.envs.contract import LaneState
from whorl.envs.hosted_lane import DEATHS_BEFORE_QUARANTINE
from whorl.job import Job
from whorl.trajectory.episodes import Episodes, episodes_of
from whorl.trajectory.orders import pack_lane_states, unpack_lane_states, within_limit
from whorl.types import Array, Arrays, EnvSpec, leaves_of


class Ledger:
    """The lanes of one strand."""

    def __init__(self, lanes: range, env: EnvSpec, agent: AgentSpec) -> None:
        self.lanes = lanes
        self.number = 0
        """Of the trajectory expected next."""
        self.exact = True
        self.env = env
        self._rows = agent.rows
        self._states = [LaneState(lane) for lane in lanes]
        self._actions: list[list[Array]] = [[] for _ in lanes]  # in pieces, joined when somebody asks
        self._recurrent: Arrays = {f.name: np.zeros((len(lanes), *f.shape), f.dtype) for f in agent.state}
        self._sums: Arrays = {
            "episode_return": np.zeros(len(lanes)),
            "episode_length": np.zeros(len(lanes), np.int64),
            "discounted": np.zeros(len(lanes), np.float32),
        }

    def accept(self, trajectory: Arrays) -> Episodes:
        """Move every lane to the end of this trajectory, which follows on the last."""
        rows = len(trajectory["reward"])
        for i in range(len(self.lanes)):
            self._note_actions(i, trajectory, rows)
        self.stand_at(trajectory)
        return episodes_of(trajectory)

    def stand_at(self, end: Arrays) -> None:
        """Every lane is where this trajectory ended, or a part of one that has its last rows."""
        observation = {name: array[-1].copy() for name, array in leaves_of(end, "obs/").items()}
        for i, state in enumerate(self._states):
            state.observation = {name: array[i] for name, array in observation.items()}
            state.episode = int(end["end/episode"][i])
            state.ended = not end["valid"][-1, i]
            length = int(end["end/snapshot_length"][i])
            state.snapshot = end["end/snapshot"][i, :length].tobytes() if length else None
            state.skip = 0
        self._recurrent = {name: array.copy() for name, array in leaves_of(end, "end/state/").items()}
        self._sums = {name: end[f"end/{name}"].copy() for name in self._sums}
        self.exact = self.exact and bool(end["end/exact"][0])
        self.number = int(end["number"][0]) + 1

    def _note_actions(self, i: int, trajectory: Arrays, rows: int) -> None:
        starts = np.flatnonzero(trajectory["first"][:, i])
        begin = int(starts[-1]) if len(starts) else 0
        if len(starts):
            self._actions[i] = []
        stepped = trajectory["valid"][begin:rows, i]
        if stepped.any():
            pieces = self._actions[i]
            pieces.append(trajectory["action"][begin:rows, i][stepped].copy())
            if self.env.restore == "none":  # whether there were any is all that matters
                pieces[:] = [pieces[-1][-1:]]

    def leave_unfinished(self, losses: int) -> int:
        """For an actor that nobody has followed: its lanes go on from their snapshots. Lanes without one, whose actions
        nobody knows, begin another episode, and none that was begun: each of ``losses`` actors that were lost here may
        have begun as many as there are rows. If it was lost here again and again, snapshots lead nowhere either.
        Returns how many lanes were amid an episode that is left; nothing of it is under way any more."""
        left = 0
        length = self._sums["episode_length"]
        for i, state in enumerate(self._states):
            goes_on = state.snapshot is not None and losses < DEATHS_BEFORE_QUARANTINE
            is_fresh = state.observation is None and not losses
            if not goes_on and not is_fresh:
                state.skip = max(1, losses) * (1 + self._rows)
                left += int(length[i] > 0)
                length[i] = 0  # else the next trajectory would tell of it as well
        return left

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
        shape = (0, *self.env.action.shape)
        for state, pieces in zip(self._states, self._actions, strict=True):
            joined = np.concatenate(pieces) if pieces else np.zeros(shape, self.env.action.dtype)
            pieces[:] = [joined] if len(joined) else []
            state.actions = joined
        return {
            **pack_lane_states(self._states, self.env),
            **{f"state/{name}": array for name, array in self._recurrent.items()},
            **self._sums,
            "number": np.full(len(self.lanes), self.number, np.int64),
        }

    def save(self) -> Arrays:
        """Everything, as named arrays for a checkpoint."""
        return {**self.order(), "exact": np.array([self.exact])}

    def load(self, arrays: Mapping[str, Array]) -> None:
        """The inverse of ``save``, for the same lanes (see ``join_saved`` and ``cut_saved`` for others)."""
        self._states = unpack_lane_states(arrays, self.env)
        self._actions = [[state.actions] if len(state.actions) else [] for state in self._states]
        self._recurrent = leaves_of(arrays, "state/")
        self.number = int(arrays["number"].max())  # the same for all, unless they had different actors before
        self.exact = bool(arrays["exact"][0])
        self._sums = {name: arrays[name].copy() for name in self._sums}


_IN_PIECES = {"actions": "action_count", "snapshots": "snapshot_length"}
"""Saved fields that hold all lanes' pieces one after the other, and the field with the pieces' lengths."""
_COMMON = ("exact",)
"""Saved fields that hold one value for all lanes."""


def join_saved(saved: list[Arrays]) -> Arrays:
    """The saved ledgers of neighbouring lanes as one, so that a checkpoint does not depend on the number of actors."""
    saved = [part for part in saved if part]  # a learner may have no actors of its own
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
    return within_limit({name: np.concatenate([order[name] for order in orders]) for name in orders[0]}, ledgers[0].env)


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
