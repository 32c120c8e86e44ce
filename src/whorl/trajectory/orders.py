"""Start orders: where each lane of an actor stands, as named arrays that travel in a message or lie in a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from whorl.envs.contract import LaneState
from whorl.plain_bytes import MAX_MESSAGE_BYTES
from whorl.types import Array, Arrays, EnvSpec, leaves_of

MAX_ACTION_BYTES = MAX_MESSAGE_BYTES // 2
"""Of all lanes of an order: it has to fit into a message, with all else that it says."""
LEFT_OUT = 1
"""``skip`` of a lane whose actions were too many for an order: it begins its next episode."""


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


def within_limit(order: Arrays, env: EnvSpec, limit_bytes: int = MAX_ACTION_BYTES) -> Arrays:
    """An order that a message can hold: where there are more actions, the longest episodes go without theirs, and
    begin anew."""
    if not order or order["actions"].nbytes <= limit_bytes:
        return order
    row_bytes = order["actions"].nbytes // len(order["actions"])
    kept, skip = order["action_count"].copy(), order["skip"].copy()
    unused = order["ended"] | (skip > 0) | ((order["snapshot_length"] > 0) & (env.restore == "snapshot"))
    kept[unused] = np.minimum(kept[unused], 1)  # whether there were any matters still
    while kept.sum() * row_bytes > limit_bytes:
        longest = kept.argmax()
        kept[longest], skip[longest] = 0, max(LEFT_OUT, skip[longest])
    ends = np.cumsum(order["action_count"])
    actions = np.concatenate([order["actions"][end - count : end] for end, count in zip(ends, kept, strict=True)])
    return {**order, "action_count": kept, "actions": actions, "skip": skip}


def left_out(order: Arrays) -> str:
    """What the user should be told of an order that is, or once was, too large; empty when nothing was left out."""
    lanes = order["lane"][order["skip"] == LEFT_OUT].tolist()
    if not lanes:
        return ""
    others = f" and {len(lanes) - 1} more" if len(lanes) > 1 else ""
    return (
        f"lane {lanes[0]}{others}: an episode too long to be brought back is begun anew, and the run is no longer "
        "exact; one with get_state and set_state, or with shorter episodes, goes on as it was"
    )
