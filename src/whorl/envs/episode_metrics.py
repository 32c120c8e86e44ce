"""What environments tell of an episode when it ends, besides its return and length: a score, a share of good steps.

An environment names them in the attribute ``episode_metrics`` of the unwrapped object, a tuple of names, and gives a
number for each in the ``info`` of the step that ends an episode. One that is missing there, or is no number, is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from whorl.errors import BadInputError
from whorl.types import Array

MOST_METRICS = 16


def metrics_of(env: Any, env_id: str) -> tuple[str, ...]:
    """The names that an environment gives; ``BadInputError`` where they cannot be used."""
    return check_names(getattr(env.unwrapped, "episode_metrics", ()), env_id)


def check_names(names: Any, env_id: str) -> tuple[str, ...]:
    """Names that can be used; ``BadInputError`` says what is wrong with others."""
    fits = isinstance(names, tuple | list) and len(names) <= MOST_METRICS and len(set(names)) == len(names)
    if not fits or not all(isinstance(name, str) and name.isidentifier() for name in names):
        raise BadInputError(
            f"{env_id}: episode_metrics must be a tuple of at most {MOST_METRICS} different names; got {names!r}"
        )
    return tuple(names)


def read_metrics(info: Any, names: Sequence[str]) -> tuple[float, ...]:
    """The numbers that an ``info`` has by these names."""
    return tuple(_number(info.get(name)) if isinstance(info, Mapping) else math.nan for name in names)


def read_batch(info: Mapping[str, Any], names: Sequence[str], copies: int) -> Array:
    """[copies, names] out of the ``info`` of a vector environment, where ``_name`` says who has it."""
    found = np.full((copies, len(names)), math.nan)
    for column, name in enumerate(names):
        if name in info:
            has = np.asarray(info.get(f"_{name}", np.ones(copies, np.bool_)), np.bool_)
            for copy in np.flatnonzero(has).tolist():
                found[copy, column] = _number(info[name][copy])
    return found


def _number(value: Any) -> float:
    try:
        return float(value)
    except Exception:  # somebody else's value may raise anything: OverflowError, RuntimeError of a tensor
        return math.nan
