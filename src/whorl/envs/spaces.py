"""Gymnasium spaces as plain specs: which arrays an observation becomes, and what an action is made of.

| space                                     | becomes                                                        |
|-------------------------------------------|----------------------------------------------------------------|
| Box, uint8, rank 3                        | image leaf [channels, height, width] (channels: shorter end)   |
| Box, uint8, rank 2                        | image leaf [1, height, width]                                  |
| any other Box, MultiBinary, MultiDiscrete | vector leaf, float32, of the same shape                        |
| Discrete                                  | discrete leaf, int64, counted from 0                           |
| Dict, Tuple of these, nested              | one leaf per member, named by its path: ``camera.left``, ``0`` |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from gymnasium import spaces

from whorl.errors import BadInputError
from whorl.types import ActionSpec, Array, ObservationLeaf

Path = tuple[str | int, ...]
Space = spaces.Space[Any]

OBSERVATIONS = "Box, Discrete, MultiBinary, MultiDiscrete, and Dict or Tuple of these"
MOST_CHOICES = 2**20
"""Of a Discrete or a MultiDiscrete: what a network can still take in or put out as one number for each."""
ACTIONS = "Discrete, MultiDiscrete, MultiBinary and Box of floats"


def leaf_spaces(space: Space, path: Path = ()) -> Iterator[tuple[Path, Space]]:
    """Every space that is not a Dict or a Tuple, with the path to it, with the keys of a Dict sorted (those of a served
    environment are in the order of the server's)."""
    if isinstance(space, spaces.Dict):
        for name in getattr(space, "leaf_order", sorted(space.spaces, key=str)):
            yield from leaf_spaces(space.spaces[name], (*path, name))
    elif isinstance(space, spaces.Tuple):
        for index, member in enumerate(space.spaces):
            yield from leaf_spaces(member, (*path, index))
    else:
        yield path, space


def leaf_name(path: Path) -> str:
    """``"obs"`` for a plain space, else the path with dots."""
    return ".".join(str(part) for part in path) or "obs"


def is_channels_last(shape: tuple[int, ...]) -> bool:
    """Whether a rank-3 image is [height, width, channels]: its last axis is then shorter than its first."""
    return len(shape) == 3 and shape[2] < shape[0]


def observation_leaves(space: Space, env_id: str) -> tuple[ObservationLeaf, ...]:
    """The leaves of an observation space; ``BadInputError`` names the first one that cannot be used."""
    leaves = tuple(_leaf(leaf_name(path), member, env_id) for path, member in leaf_spaces(space))
    names = [leaf.name for leaf in leaves]
    if not leaves:
        raise BadInputError(f"{env_id}: its observation space is empty; use {OBSERVATIONS}")
    if len(set(names)) != len(names):
        raise BadInputError(f"{env_id}: two parts of its observation have the same path: {sorted(names)}; rename one")
    return leaves


def _leaf(name: str, space: Space, env_id: str) -> ObservationLeaf:
    if isinstance(space, spaces.Discrete):
        _check_choices(int(space.n), f"observation {name!r}", env_id)
        return ObservationLeaf(name, "discrete", (), "int64", 0.0, float(space.n - 1), int(space.n))
    if isinstance(space, spaces.MultiBinary):
        return ObservationLeaf(name, "vector", tuple(space.shape), "float32", 0.0, 1.0)
    if isinstance(space, spaces.MultiDiscrete):
        low, high = space.start, space.start + space.nvec - 1
        return ObservationLeaf(name, "vector", tuple(space.shape), "float32", float(np.min(low)), float(np.max(high)))
    if isinstance(space, spaces.Box) and space.dtype is not None and space.dtype.kind in "fiub":
        shape = tuple(int(size) for size in space.shape)
        if math.prod(shape) == 0:
            raise BadInputError(f"{env_id}: observation {name!r} has no elements (shape {shape}); leave it out")
        low_bound, high_bound = float(np.min(space.low)), float(np.max(space.high))
        if space.dtype == np.uint8 and len(shape) in (2, 3):
            return ObservationLeaf(name, "image", _image_shape(shape), "uint8", low_bound, high_bound)
        return ObservationLeaf(name, "vector", shape, "float32", low_bound, high_bound)
    raise BadInputError(f"{env_id}: observation {name!r} is a {_describe(space)}, which is not supported; "
                        f"use {OBSERVATIONS}")  # fmt: skip


def _image_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    if len(shape) == 2:
        return (1, *shape)
    return (shape[2], shape[0], shape[1]) if is_channels_last(shape) else shape


def action_spec(space: Space, env_id: str) -> ActionSpec:
    """What the environment takes; ``BadInputError`` when that is not supported."""
    if isinstance(space, spaces.Discrete):
        _check_choices(int(space.n), "its action", env_id)
        return ActionSpec("discrete", (), "int64", nvec=(int(space.n),))
    if isinstance(space, spaces.MultiDiscrete):
        nvec = tuple(int(n) for n in space.nvec.ravel())
        _check_choices(sum(nvec), "its action", env_id)
        return ActionSpec("multi_discrete", tuple(space.shape), "int64", nvec=nvec)
    if isinstance(space, spaces.MultiBinary):
        nvec = (2,) * math.prod(int(size) for size in space.shape)
        return ActionSpec("multi_discrete", tuple(space.shape), "int64", nvec=nvec)
    if (
        isinstance(space, spaces.Box)
        and space.dtype is not None
        and space.dtype.kind == "f"
        and math.prod(space.shape) > 0
    ):
        low = tuple(float(bound) for bound in space.low.ravel())
        high = tuple(float(bound) for bound in space.high.ravel())
        return ActionSpec("box", tuple(space.shape), "float32", low=low, high=high)
    raise BadInputError(f"{env_id}: its action is a {_describe(space)}, which is not supported; use {ACTIONS}")


def _check_choices(count: int, what: str, env_id: str) -> None:
    if count > MOST_CHOICES:
        raise BadInputError(f"{env_id}: {what} has {count} choices, and networks take one number for each: use fewer "
                            f"than {MOST_CHOICES}, or a Box")  # fmt: skip


def into_space(space: Space) -> Callable[[Array], Array]:
    """A function from actions [lanes, *shape] to copies in the numbers of the space: its dtype, counted from its start.

    Bounds of a space that is finer than float32 may be rounded outwards in an agent's actions, and hold again here.
    """
    dtype = np.dtype(space.dtype)
    if isinstance(space, spaces.Box) and dtype.itemsize > 4:
        low, high = space.low, space.high
        return lambda actions: np.clip(actions.astype(dtype), low, high)
    start = getattr(space, "start", 0)
    return (lambda actions: (actions + start).astype(dtype)) if np.any(start) else lambda actions: actions.astype(dtype)


def random_actions(action: ActionSpec, count: int, seed: int) -> Array:
    """Actions [count, *shape] within their bounds (-1..1 where there are none), from a generator of our own."""
    generator = np.random.default_rng(seed)
    flat: Array
    if action.kind == "box":
        low, high = np.array(action.low), np.array(action.high)
        low = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high - 2, -1))
        high = np.where(np.isfinite(high), high, low + 2)
        flat = generator.uniform(low, high, (count, len(low)))
    else:
        flat = generator.integers(0, action.nvec, (count, len(action.nvec)))
    return flat.astype(action.dtype).reshape(count, *action.shape)


def _describe(space: Space) -> str:
    dtype = getattr(space, "dtype", None)
    return f"{type(space).__name__} of {dtype}" if isinstance(space, spaces.Box) else type(space).__name__
