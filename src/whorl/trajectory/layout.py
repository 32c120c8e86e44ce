"""How a trajectory lies in its buffer: T rows of B lanes, one row more for bootstrapping, and where each lane ended.

strand          [1]            whose trajectory this is: that of some lanes of an actor which move on together
number          [1]            which trajectory of its strand this is
incarnation     [1]            of the actor that collected it
env_steps       [1]            taken in it
handed_over     [1]            env steps that its actor has handed over by its end, and the lost ones before that actor
took_s          [1]            seconds it took, where all lanes of an actor fill it together
finished_at     [1]            seconds since the epoch when it was complete
version         [T]            the weights' version each row was acted with
first, valid    [T + 1, B]
obs/<leaf>      [T + 1, B, ...]   raw, as the environment gave them
action          [T, B, ...]
reward, terminated, truncated, <agent's fields>   [T, B, ...]
metric/<name>   [T, B]         what the environment told of an episode where it ended, NaN elsewhere
discounted_return [T, B]       running discounted sum of rewards within each lane's episode, where the agent wants it
state/<name>    [B, ...]       recurrent state before row 0
begin/...       [B]            return and length so far of the episode that is under way before row 0
end/...         [B, ...]       what the ledger needs to rebuild the lanes as they are after row T - 1
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from whorl.envs.hosted import SNAPSHOT_BYTES
from whorl.types import Arrays, EnvSpec, Field, Layout

METRIC = "metric/"
RUNNING_SUMS = (("episode_return", "float64"), ("episode_length", "int64"))


def trajectory_layout(
    env: EnvSpec,
    *,
    rows: int,
    lanes: int,
    fields: Sequence[Field],
    state: Sequence[Field],
    discounted_return: bool = False,
) -> Layout:
    """The layout of one strand's trajectory. ``fields`` and ``state`` are the agent's, per lane."""
    all_rows = rows + 1  # the last one only bootstraps
    snapshot_bytes = SNAPSHOT_BYTES if env.restore == "snapshot" else 0
    return Layout(
        (
            Field("strand", (1,), "int64"),
            Field("number", (1,), "int64"),
            Field("incarnation", (1,), "int64"),
            Field("env_steps", (1,), "int64"),
            Field("handed_over", (1,), "int64"),
            Field("took_s", (1,), "float64"),
            Field("finished_at", (1,), "float64"),
            Field("version", (rows,), "int64"),
            Field("first", (all_rows, lanes), "bool"),
            Field("valid", (all_rows, lanes), "bool"),
            *env.observation_fields("obs/", all_rows, lanes),
            Field("action", (rows, lanes, *env.action.shape), env.action.dtype),
            Field("reward", (rows, lanes), "float32"),
            Field("terminated", (rows, lanes), "bool"),
            Field("truncated", (rows, lanes), "bool"),
            *(Field(f"{METRIC}{name}", (rows, lanes), "float64") for name in env.episode_metrics),
            *(Field(f.name, (rows, lanes, *f.shape), f.dtype) for f in fields),
            *((Field("discounted_return", (rows, lanes), "float32"),) if discounted_return else ()),
            *(Field(f"state/{f.name}", (lanes, *f.shape), f.dtype) for f in state),
            *(Field(f"end/state/{f.name}", (lanes, *f.shape), f.dtype) for f in state),
            *(Field(f"{end}/{name}", (lanes,), dtype) for end in ("begin", "end") for name, dtype in RUNNING_SUMS),
            Field("end/discounted", (lanes,), "float32"),
            Field("end/episode", (lanes,), "int64"),
            Field("end/exact", (1,), "bool"),
            Field("end/snapshot", (lanes, snapshot_bytes), "uint8"),
            Field("end/snapshot_length", (lanes,), "int64"),
        )
    )


PER_TRAJECTORY = frozenset(
    {
        *("strand", "number", "incarnation", "env_steps", "handed_over", "took_s", "finished_at", "version"),
        "end/exact",
    }
)
"""Fields that hold one value for all lanes."""
PER_LANE = ("state/", "begin/", "end/")
"""Beginnings of the names of fields that hold one value for each lane, and not for each row."""


def has_rows(name: str) -> bool:
    """Whether a field holds something for each row."""
    return name not in PER_TRAJECTORY and not name.startswith(PER_LANE)


def join_lanes(trajectories: Sequence[Arrays]) -> Arrays:
    """Trajectories of neighbouring lanes as one. A single one is passed through without a copy."""
    if len(trajectories) == 1:
        return trajectories[0]
    joined: Arrays = {}
    for name, array in trajectories[0].items():
        if name in PER_TRAJECTORY:
            joined[name] = array
        else:
            axis = 0 if name.startswith(PER_LANE) else 1
            joined[name] = np.concatenate([trajectory[name] for trajectory in trajectories], axis=axis)
    return joined


def cut_lanes(trajectory: Arrays, start: int, stop: int) -> Arrays:
    """Lanes ``start`` to ``stop`` of a trajectory, as views."""
    return {
        name: array
        if name in PER_TRAJECTORY
        else array[start:stop]
        if name.startswith(PER_LANE)
        else array[:, start:stop]
        for name, array in trajectory.items()
    }


def env_steps_of(trajectory: Arrays) -> int:
    """Environment steps taken in a trajectory: its valid rows, without the bootstrap row."""
    return int(trajectory["env_steps"][0])


def copy_last_rows(trajectory: Arrays, part: Arrays) -> None:
    """Fill in a part of a trajectory: those of its fields that the trajectory has, the last rows of those that are
    shorter there."""
    for name, array in part.items():
        if name in trajectory:
            array[...] = trajectory[name][-len(array) :]
