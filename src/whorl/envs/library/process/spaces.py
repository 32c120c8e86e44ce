"""Spaces in a form that TOML can hold, and their values as JSON.

| description                              | space                              | as JSON             |
|------------------------------------------|------------------------------------|---------------------|
| ``4``                                    | Discrete(4)                        | ``2``               |
| ``[3, 3]``                               | MultiDiscrete([3, 3])              | ``[0, 2]``          |
| ``{shape = [2], low = -1.0, high = 1.0}``| Box; unbounded without low or high | ``[0.5, -0.1]``     |
| ``{low = [0, 0], high = [1, 5]}``        | Box with bounds for each number    | ``[0.5, 4.0]``      |
| ``{mode = 3, place = {shape = [2]}}``    | Dict of these                      | ``{"mode": 1, ...}``|
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from whorl.envs.spaces import Space

_BOX_KEYS = frozenset({"shape", "low", "high", "dtype"})
_DTYPES = ("float32", "float64", "uint8")


class BadAnswer(ValueError):
    """A program's answer is not what its spaces say."""


def make_space(name: str, description: Any) -> Space:
    """The space that a description means; ``ValueError`` says what is wrong with it."""
    if _is_count(description):
        return spaces.Discrete(description)
    if isinstance(description, list | tuple) and description and all(map(_is_count, description)):
        return spaces.MultiDiscrete(list(description))
    if isinstance(description, Mapping) and description:
        if set(description) <= _BOX_KEYS:
            return _box(name, description)
        return spaces.Dict({key: make_space(f"{name}.{key}", member) for key, member in description.items()})
    raise ValueError(
        f"{name} must be a number of choices (4), a list of those ([3, 3]), a table such as "
        f"{{shape = [2], low = -1.0, high = 1.0}}, or a table of these by name; not {description!r}"
    )


def to_json(space: Space, value: Any) -> Any:
    """A value as JSON can hold it."""
    if isinstance(space, spaces.Dict):
        return {key: to_json(member, value[key]) for key, member in space.spaces.items()}
    return np.asarray(value).tolist()


def from_json(space: Space, value: Any, name: str = "observation") -> Any:
    """A value as the space has it; ``BadAnswer`` says what was expected. Numbers may come as one flat list."""
    if isinstance(space, spaces.Dict):
        if not isinstance(value, dict) or set(value) != set(space.spaces):
            raise BadAnswer(f"{name}: expected {_names(space.spaces)}; got {_shown(value)}")
        return {key: from_json(member, value[key], f"{name}.{key}") for key, member in space.spaces.items()}
    numbers = _numbers(value, name)
    if isinstance(space, spaces.Discrete):
        if numbers.size != 1 or numbers.flat[0] not in range(int(space.n)):
            raise BadAnswer(f"{name}: expected a whole number from 0 to {int(space.n) - 1}; got {_shown(value)}")
        return np.int64(numbers.flat[0])
    assert space.shape is not None
    if numbers.size != np.prod(space.shape, dtype=int):
        raise BadAnswer(f"{name}: expected numbers of shape {list(space.shape)}; got {list(numbers.shape)}")
    numbers = numbers.reshape(space.shape)
    kind = np.dtype(space.dtype)
    if kind.kind in "ui":
        limits = np.iinfo(kind)
        if not np.all((numbers == np.floor(numbers)) & (numbers >= limits.min) & (numbers <= limits.max)):
            raise BadAnswer(f"{name}: expected whole numbers of {kind}; got {_shown(value)}")
    with np.errstate(over="ignore"):  # what becomes infinite is refused at the lane's door
        return numbers.astype(kind)


def _numbers(value: Any, name: str) -> Any:
    try:
        numbers = np.array(value, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise BadAnswer(f"{name}: expected numbers; got {_shown(value)}") from None
    if value is None or isinstance(value, str | dict):
        raise BadAnswer(f"{name}: expected numbers; got {_shown(value)}")
    return numbers


def _box(name: str, description: Mapping[str, Any]) -> Space:
    dtype = description.get("dtype", "float32")
    if dtype not in _DTYPES:
        raise ValueError(f"{name}: dtype must be one of {', '.join(_DTYPES)}, not {dtype!r}")
    lowest, highest = (0, 255) if dtype == "uint8" else (-np.inf, np.inf)
    try:
        low = np.array(description.get("low", lowest), np.float64)
        high = np.array(description.get("high", highest), np.float64)
        given = description.get("shape", np.broadcast_shapes(low.shape, high.shape))
        shape = tuple(int(side) for side in given)
        low, high = (np.broadcast_to(bound, shape) for bound in (low, high))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: shape, low and high do not fit: {error}") from None
    if not shape or min(shape) < 1:
        raise ValueError(f"{name}: shape must be a list of whole numbers above 0, not {list(shape)}")
    if not np.all(low < high):
        raise ValueError(f"{name}: low must be below high")
    return spaces.Box(low.astype(dtype), high.astype(dtype), shape, np.dtype(dtype).type)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _names(members: Mapping[str, Any]) -> str:
    return f"an object with {', '.join(members)}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
