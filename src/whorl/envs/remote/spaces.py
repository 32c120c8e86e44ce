"""A served environment's spaces as Gymnasium spaces, such that they give the very leaves that the server told of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from whorl.envs.spaces import Space, is_channels_last
from whorl.types import ActionSpec, Array, ObservationLeaf


class Leaves(spaces.Dict):
    """A Dict whose members keep the server's order."""

    def __init__(self, members: dict[str, Space]) -> None:
        super().__init__(members)
        self.leaf_order = tuple(members)


def observation_space(leaves: Sequence[ObservationLeaf]) -> Space:
    """One space for a single leaf called ``obs``, else a Dict by the leaves' names."""
    if len(leaves) == 1 and leaves[0].name == "obs":
        return _leaf_space(leaves[0])
    return Leaves({leaf.name: _leaf_space(leaf) for leaf in leaves})


def shown(leaf: ObservationLeaf, array: Array) -> Any:
    """A leaf's array as its space has it; a copy."""
    if leaf.kind == "discrete":
        return np.int64(array)
    if leaf.kind == "image" and is_channels_last(leaf.shape):
        array = array.transpose(1, 2, 0)
    return np.array(array, _leaf_space_dtype(leaf))


def action_space(action: ActionSpec) -> Space:
    """What ``step`` takes; the bounds of a box are float64, which holds every bound exactly."""
    if action.kind == "discrete":
        return spaces.Discrete(action.nvec[0])
    if action.kind == "multi_discrete":
        return spaces.MultiDiscrete(np.array(action.nvec).reshape(action.shape))
    low, high = (np.array(bound, np.float64).reshape(action.shape) for bound in (action.low, action.high))
    return spaces.Box(low, high, action.shape, np.float64)


def _leaf_space(leaf: ObservationLeaf) -> Space:
    if leaf.kind == "discrete":
        return spaces.Discrete(leaf.n)
    shape = leaf.shape
    if leaf.kind == "image":
        if is_channels_last(shape):  # it would be taken for [height, width, channels]: show it as that
            shape = (shape[1], shape[2], shape[0])
        return spaces.Box(int(leaf.low), int(leaf.high), shape, np.uint8)
    return spaces.Box(leaf.low, leaf.high, shape, _leaf_space_dtype(leaf))


def _leaf_space_dtype(leaf: ObservationLeaf) -> Any:
    """float32 for what travels as that, but float64 where float32 would round the bounds."""
    if leaf.kind != "vector":
        return leaf.dtype
    exact = all(math.isinf(bound) or float(np.float32(bound)) == bound for bound in (leaf.low, leaf.high))
    return np.float32 if exact else np.float64
