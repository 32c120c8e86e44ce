"""Start orders: where each lane of an actor stands, as named arrays that travel in a message or lie in a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from whorl.envs.contract import LaneState
from whorl.types import Array, Arrays, EnvSpec, leaves_of


def pack_lane_states(states: Sequence[LaneState], env: EnvSpec) -> Arrays:
    """Lane states as arrays; actions and snapshots of all lanes one after the other, with their lengths."""
    started = [state.observation is not None for state in states]
    arrays: Arrays = {
        "lane": np.array([state.lane for state in states], np.int64),
        "episode": np.array([state.episode for state in states], np.int64),
        "ended": np.array([state.ended for state in states], np.bool_),
        "skip": np.array([state.skip for state in states], np.int64),
        "started": np.array(started, np.bool_),
        "action_count": np.array([len(state.actions) for state in states], np.int64),
        "actions": np.concatenate(
            [np.asarray(s.actions, env.action.dtype).reshape(-1, *env.action.shape) for s in states]
        ),
        "snapshot_length": np.array([len(state.snapshot or b"") for state in states], np.int64),
        "snapshots": np.frombuffer(b"".join(state.snapshot or b"" for state in states), np.uint8),
    }
    for leaf in env.observation:
        nothing = np.zeros(leaf.shape, leaf.dtype)
        arrays[f"obs/{leaf.name}"] = np.stack(
            [nothing if state.observation is None else state.observation[leaf.name] for state in states]
        )
    return arrays


def unpack_lane_states(arrays: Mapping[str, Array], env: EnvSpec) -> list[LaneState]:
    """The inverse of ``pack_lane_states``."""
    action_ends = np.cumsum(arrays["action_count"])
    snapshot_ends = np.cumsum(arrays["snapshot_length"])
    actions = arrays["actions"].reshape(-1, *env.action.shape)
    observations = leaves_of(arrays, "obs/")
    states = []
    for i, lane in enumerate(arrays["lane"]):
        snapshot = arrays["snapshots"][snapshot_ends[i] - arrays["snapshot_length"][i] : snapshot_ends[i]]
        states.append(
            LaneState(
                lane=int(lane),
                episode=int(arrays["episode"][i]),
                actions=actions[action_ends[i] - arrays["action_count"][i] : action_ends[i]],
                ended=bool(arrays["ended"][i]),
                observation={name: leaf[i] for name, leaf in observations.items()} if arrays["started"][i] else None,
                snapshot=snapshot.tobytes() if len(snapshot) else None,
                skip=int(arrays["skip"][i]),
            )
        )
    return states
