"""The actor's door: what an environment returns is checked once, here, and copied into arrays that Whorl owns.

Structure, shape, dtype, size and discrete ranges are checked as each value is copied. Whether floats are finite and
integers in range is checked for all lanes of a row at once, which costs a fraction of a microsecond.

Floats outside their declared Box are let through on purpose: many good environments overstep their bounds by rounding
or at the step that ends an episode, and networks do not mind. Integers and images outside theirs are refused: they
mean another encoding than the one declared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from whorl.envs.spaces import Path, Space, into_space, is_channels_last, leaf_name, leaf_spaces, observation_leaves
from whorl.types import Array, ObservationLeaf

_KINDS = {"f": "f", "i": "iub", "u": "iub", "b": "iub"}


class RefusedValue(ValueError):
    """Something the environment's spaces forbid: ``field: expected ..., got ...``. Lanes add who and where."""


def refuse(field: str, expected: str, got: str) -> RefusedValue:
    """One sentence in the form every message of the door has."""
    return RefusedValue(f"{field}: expected {expected}, got {got}")


class _LeafDoor:
    """Checks and copies one leaf of an observation."""

    def __init__(self, path: Path, space: Space, leaf: ObservationLeaf, max_bytes: int) -> None:
        self.path, self.leaf, self.max_bytes = path, leaf, max_bytes
        self.kinds = "iu" if leaf.kind == "discrete" else _KINDS[np.dtype(space.dtype).kind]
        self.start = int(space.start) if isinstance(space, spaces.Discrete) else 0
        self.shape = tuple(space.shape or ())
        self.transpose = leaf.kind == "image" and is_channels_last(self.shape)
        self.exact_dtype = np.dtype(space.dtype) if leaf.kind == "image" else None
        self.bounds = _integer_bounds(space, leaf, self.transpose)
        self.checks_finite = leaf.kind == "vector" and self.kinds == "f"

    def write(self, value: Any, target: Array) -> None:
        if self.leaf.kind == "discrete":
            target[...] = self._discrete(value)
            return
        array = self._array(value)
        if self.transpose:
            array = array.transpose(2, 0, 1)
        elif array.ndim != target.ndim:
            array = array.reshape(target.shape)
        with np.errstate(over="ignore"):  # a float64 beyond float32 becomes inf, which the row's check refuses
            target[...] = array

    def write_batch(self, values: Any, block: Array) -> None:
        shape = (len(block), *self.shape)
        right_dtype = (
            values.dtype == self.exact_dtype if self.exact_dtype is not None else values.dtype.kind in self.kinds
        )
        if values.shape != shape or not right_dtype:
            wanted = f"{self.exact_dtype or 'numbers'} of shape {shape}"
            raise refuse(self.leaf.name, wanted, f"{values.dtype} of shape {values.shape}")
        if self.leaf.kind == "discrete":
            block[...] = values - self.start
            if block.min() < 0 or block.max() >= self.leaf.n:
                raise refuse(self.leaf.name, f"integers in {self.start}..{self.start + self.leaf.n - 1}", str(values))
            return
        with np.errstate(over="ignore"):
            block[...] = values.transpose(0, 3, 1, 2) if self.transpose else values.reshape(block.shape)

    def _discrete(self, value: Any) -> int:
        array = self._array(value)
        number = int(array) - self.start
        if not 0 <= number < self.leaf.n:
            raise refuse(self.leaf.name, f"an integer in {self.start}..{self.start + self.leaf.n - 1}", str(int(array)))
        return number

    def _array(self, value: Any) -> Array:
        if isinstance(value, np.ndarray):
            array = value
        else:
            try:
                array = np.asarray(value)
            except Exception as error:  # the value's own code may run here
                raise refuse(self.leaf.name, self.wanted(), f"a {type(value).__name__} ({error})") from None
        if array.nbytes > self.max_bytes:
            raise refuse(self.leaf.name, f"at most {self.max_bytes} bytes (env.max_observation_bytes)",
                         f"{array.nbytes} bytes of shape {array.shape}")  # fmt: skip
        right_dtype = (
            array.dtype == self.exact_dtype if self.exact_dtype is not None else array.dtype.kind in self.kinds
        )
        if array.shape != self.shape or not right_dtype:
            raise refuse(self.leaf.name, self.wanted(), f"{array.dtype} of shape {array.shape}")
        return array

    def wanted(self) -> str:
        kind = {"f": "float", "iu": "integer", "iub": "integer"}[self.kinds]
        return f"{self.exact_dtype or kind} of shape {self.shape}"


def _integer_bounds(space: Space, leaf: ObservationLeaf, transpose: bool) -> tuple[Array, Array] | None:
    """Bounds to compare a row of integers with, or None where the dtype or the space leaves nothing to check."""
    if isinstance(space, spaces.MultiBinary):
        return np.zeros(leaf.shape, np.float32), np.ones(leaf.shape, np.float32)
    if isinstance(space, spaces.MultiDiscrete):
        return space.start.astype(np.float32), (space.start + space.nvec - 1).astype(np.float32)
    if not isinstance(space, spaces.Box) or space.dtype is None or space.dtype.kind == "f":
        return None
    info = np.iinfo(space.dtype) if space.dtype.kind in "iu" else None
    if info is not None and bool(np.all(space.low == info.min)) and bool(np.all(space.high == info.max)):
        return None
    low, high = (
        bound.transpose(2, 0, 1) if transpose else bound.reshape(leaf.shape) for bound in (space.low, space.high)
    )
    return low.astype(leaf.dtype), high.astype(leaf.dtype)


class ObservationDoor:
    """Copies one environment's observations into arrays, one per leaf of its spec.

    >>> door = ObservationDoor(env.observation_space, "CartPole-v1", 2**26)     # doctest: +SKIP
    >>> door.write(observation, targets)                                        # doctest: +SKIP
    """

    def __init__(self, space: Space, env_id: str, max_bytes: int) -> None:
        self.leaves = observation_leaves(space, env_id)
        self._space = space
        self._doors = [
            _LeafDoor(path, member, leaf, max_bytes)
            for (path, member), leaf in zip(leaf_spaces(space), self.leaves, strict=True)
        ]
        self._plain = self._doors[0] if self._doors[0].path == () else None
        plain = self._plain
        is_quick = plain is not None and plain.checks_finite and len(plain.shape) > 0
        self._quick_shape = plain.shape if plain is not None and is_quick else None
        self._checked = [(index, door) for index, door in enumerate(self._doors) if door.checks_finite or door.bounds]

    def write(self, observation: Any, targets: Sequence[Array]) -> None:
        """Check ``observation`` and copy its leaves into ``targets``; ``RefusedValue`` says what is wrong."""
        if type(observation) is np.ndarray and observation.shape == self._quick_shape and observation.dtype is _FLOAT32:
            targets[0][...] = observation
        elif self._plain is not None:
            self._plain.write(observation, targets[0])
        else:
            _check_structure(self._space, observation, ())
            for door, target in zip(self._doors, targets, strict=True):
                value = observation
                for part in door.path:
                    value = value[part]
                door.write(value, target)

    def write_batch(self, observations: Any, blocks: Sequence[Array]) -> None:
        """As ``write``, for the batched observations of a vector form: every leaf is [lanes, *shape]."""
        for door, block in zip(self._doors, blocks, strict=True):
            value = observations
            for part in door.path:
                value = value[part]
            door.write_batch(value, block)

    def row_check(self, blocks: Sequence[Array]) -> Callable[[], bool]:
        """A cheap test of all lanes at once over ``blocks`` [lanes, *leaf.shape]; False: ask ``explain``."""
        floats = [blocks[index].reshape(-1) for index, door in self._checked if door.checks_finite]
        finite = [(flat, np.zeros(flat.shape, np.bool_)) for flat in floats]
        bounded = [(blocks[index], *door.bounds) for index, door in self._checked if door.bounds is not None]

        def passes() -> bool:
            for flat, mask in finite:
                np.isfinite(flat, mask)
                if b"\0" in mask.tobytes():  # for small arrays much quicker than `all`
                    return False
            return all(bool((block >= low).all()) and bool((block <= high).all()) for block, low, high in bounded)

        return passes

    def explain(self, blocks: Sequence[Array]) -> tuple[int, RefusedValue] | None:
        """Which lane's copied observation is at fault, and why."""
        for index, door in self._checked:
            block = blocks[index]
            if door.bounds is not None:
                low, high = door.bounds
                bad = np.argwhere((block < low) | (block > high))
                expected = f"integers in {door.leaf.low:g}..{door.leaf.high:g}"
            else:
                bad = np.argwhere(~np.isfinite(block))
                expected = "finite numbers"
            if len(bad):
                lane, *position = (int(i) for i in bad[0])
                where = f"{door.leaf.name}{position}" if position else door.leaf.name
                return lane, refuse(where, expected, str(block[tuple(bad[0])]))
        return None


_FLOAT32 = np.dtype(np.float32)
_NUMBERS = (float, int, np.floating, np.integer, np.bool_)


def _check_structure(space: Space, observation: Any, path: Path) -> None:
    """Dict keys and Tuple lengths, down to the leaves."""
    if isinstance(space, spaces.Dict):
        name = leaf_name(path)
        expected = f"a dict with keys {sorted(space.spaces, key=str)}"
        if not isinstance(observation, dict):
            raise refuse(name, expected, f"a {type(observation).__name__}")
        missing = sorted(set(space.spaces) - set(observation), key=str)
        extra = sorted(set(observation) - set(space.spaces), key=str)
        if missing or extra:
            got = " and ".join(
                [*(["no " + ", ".join(map(repr, missing))] if missing else []),
                 *(["also " + ", ".join(map(repr, extra))] if extra else [])]
            )  # fmt: skip
            raise refuse(name, expected, got)
        for key, member in space.spaces.items():
            _check_structure(member, observation[key], (*path, key))
    elif isinstance(space, spaces.Tuple):
        if not isinstance(observation, tuple | list) or len(observation) != len(space.spaces):
            got = f"{len(observation)}" if isinstance(observation, tuple | list) else f"a {type(observation).__name__}"
            raise refuse(leaf_name(path), f"a tuple of {len(space.spaces)}", got)
        for index, member in enumerate(space.spaces):
            _check_structure(member, observation[index], (*path, index))


def check_reward(reward: Any) -> float:
    """A reward as a float; ``RefusedValue`` where it is no number. Finiteness is the row's check."""
    if isinstance(reward, _NUMBERS):
        try:
            return float(reward)
        except OverflowError:
            return math.inf
    if isinstance(reward, np.ndarray) and reward.size == 1 and reward.dtype.kind in "fiub":
        return float(reward.reshape(()))
    shape = f" of shape {reward.shape}" if isinstance(reward, np.ndarray) else ""
    raise refuse("reward", "one finite number", f"a {type(reward).__name__}{shape}")


def check_flag(name: str, flag: Any) -> bool:
    """``terminated`` or ``truncated`` as a bool; ``RefusedValue`` where it is something else."""
    if isinstance(flag, bool | np.bool_) or (isinstance(flag, int | np.integer) and flag in (0, 1)):
        return bool(flag)
    raise refuse(name, "True or False", repr(flag)[:60])


def read_reset(result: Any) -> Any:
    """The observation that ``reset`` returned; ``RefusedValue`` where it returned something else."""
    if not isinstance(result, tuple) or len(result) != 2:
        raise refuse("reset", "(observation, info)", _described(result))
    return result[0]


def read_step(result: Any) -> tuple[Any, float, bool, bool, Any]:
    """What ``step`` returned, with a reward and flags that are such; ``RefusedValue`` where they are not."""
    if not isinstance(result, tuple) or len(result) != 5:
        raise refuse("step", "(observation, reward, terminated, truncated, info)", _described(result))
    observation, reward, terminated, truncated, info = result
    if type(reward) is not float:
        reward = check_reward(reward)
    if type(terminated) is not bool:
        terminated = check_flag("terminated", terminated)
    if type(truncated) is not bool:
        truncated = check_flag("truncated", truncated)
    return observation, reward, terminated, truncated, info


def _described(result: Any) -> str:
    return f"a tuple of {len(result)}" if isinstance(result, tuple) else f"a {type(result).__name__}"


def action_door(space: Space) -> Callable[[Array], Sequence[Any]]:
    """A function from actions [lanes, *shape] to what each lane's ``env.step`` takes.

    Arrays are copies of their own: an environment may keep or change what it is given.
    """
    if isinstance(space, spaces.Discrete):
        start = int(space.start)

        def discrete(actions: Array) -> Sequence[Any]:
            numbers: list[int] = actions.tolist()
            return [number + start for number in numbers] if start else numbers

        return discrete
    in_space = into_space(space)

    def arrays(actions: Array) -> Sequence[Any]:
        return list(in_space(actions))

    def scalars(actions: Array) -> Sequence[Any]:
        return [np.array(number) for number in in_space(actions)]

    return arrays if space.shape else scalars
