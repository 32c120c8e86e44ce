"""How a trajectory lies in its buffer: T rows of B lanes, one row more for bootstrapping, and where each lane ended.

strand          [1]            whose trajectory this is: that of some lanes of an actor which move on together
number          [1]            which trajectory of its strand this is
incarnation     [1]            of the actor that collected it
order           [1]            which of the learner's start orders that actor followed
version         [T]            the weights' version each row was acted with
first, valid    [T + tail, B]
obs/<leaf>      [T + tail, B, ...]   raw, as the environment gave them
action          [T, B, ...]
reward, terminated, truncated, <agent's fields>   [T, B, ...]
state/<name>    [B, ...]       recurrent state before row 0
end/...         [B, ...]       what the ledger needs to rebuild the lanes as they are after row T - 1
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from whorl.envs.hosted import SNAPSHOT_BYTES
from whorl.types import Arrays, EnvSpec, Field, Layout


def trajectory_layout(
    env: EnvSpec, *, rows: int, tail_rows: int, lanes: int, fields: Sequence[Field], state: Sequence[Field]
) -> Layout:
    """The layout of one strand's trajectory. ``fields`` and ``state`` are the agent's, per lane."""
    all_rows = rows + tail_rows
    snapshot_bytes = SNAPSHOT_BYTES if env.restore == "snapshot" else 0
    return Layout(
        (
            Field("strand", (1,), "int64"),
            Field("number", (1,), "int64"),
            Field("incarnation", (1,), "int64"),
            Field("order", (1,), "int64"),
            Field("version", (rows,), "int64"),
            Field("first", (all_rows, lanes), "bool"),
            Field("valid", (all_rows, lanes), "bool"),
            *env.observation_fields("obs/", all_rows, lanes),
            Field("action", (rows, lanes, *env.action.shape), env.action.dtype),
            Field("reward", (rows, lanes), "float32"),
            Field("terminated", (rows, lanes), "bool"),
            Field("truncated", (rows, lanes), "bool"),
            *(Field(f.name, (rows, lanes, *f.shape), f.dtype) for f in fields),
            *(Field(f"state/{f.name}", (lanes, *f.shape), f.dtype) for f in state),
            *(Field(f"end/state/{f.name}", (lanes, *f.shape), f.dtype) for f in state),
            Field("end/episode", (lanes,), "int64"),
            Field("end/exact", (1,), "bool"),
            Field("end/snapshot", (lanes, snapshot_bytes), "uint8"),
            Field("end/snapshot_length", (lanes,), "int64"),
        )
    )


PER_TRAJECTORY = frozenset({"strand", "number", "incarnation", "order", "version", "end/exact"})
"""Fields that hold one value for all lanes."""


def join_lanes(trajectories: Sequence[Arrays]) -> Arrays:
    """Trajectories of neighbouring lanes as one. A single one is passed through without a copy."""
    if len(trajectories) == 1:
        return trajectories[0]
    joined: Arrays = {}
    for name, array in trajectories[0].items():
        if name in PER_TRAJECTORY:
            joined[name] = array
        else:
            axis = 0 if name.startswith(("state/", "end/")) else 1
            joined[name] = np.concatenate([trajectory[name] for trajectory in trajectories], axis=axis)
    return joined


def cut_lanes(trajectory: Arrays, start: int, stop: int) -> Arrays:
    """Lanes ``start`` to ``stop`` of a trajectory, as views."""
    return {
        name: array
        if name in PER_TRAJECTORY
        else array[start:stop]
        if name.startswith(("state/", "end/"))
        else array[:, start:stop]
        for name, array in trajectory.items()
    }


def env_steps_of(trajectory: Arrays) -> int:
    """Environment steps taken in a trajectory: its valid rows, without the bootstrap row."""
    return int(np.count_nonzero(trajectory["valid"][: len(trajectory["reward"])]))
