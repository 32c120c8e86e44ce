"""``EnvSpec`` as plain JSON values, so that it travels to every role and into the run directory.

JSON has no infinities; they are written as the strings ``"inf"`` and ``"-inf"``.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from whorl.types import ActionSpec, EnvSpec, ObservationLeaf


def spec_to_json(spec: EnvSpec) -> dict[str, Any]:
    """The spec as dicts, lists, strings, numbers and booleans."""
    values: dict[str, Any] = asdict(spec)
    for leaf in values["observation"]:
        leaf["low"], leaf["high"] = _finite(leaf["low"]), _finite(leaf["high"])
        leaf["shape"] = list(leaf["shape"])
    action = values["action"]
    action.update({name: [_finite(bound) for bound in action[name]] for name in ("low", "high")})
    action["shape"], action["nvec"] = list(action["shape"]), list(action["nvec"])
    values["observation"] = list(values["observation"])
    values["episode_metrics"] = list(values["episode_metrics"])
    return values


def spec_from_json(values: dict[str, Any]) -> EnvSpec:
    """The inverse of ``spec_to_json``."""
    leaves = tuple(
        ObservationLeaf(
            **{**leaf, "shape": tuple(leaf["shape"]), "low": float(leaf["low"]), "high": float(leaf["high"])}
        )
        for leaf in values["observation"]
    )
    action = values["action"]
    bounds = {name: tuple(float(bound) for bound in action[name]) for name in ("low", "high")}
    action_spec = ActionSpec(**{**action, **bounds, "shape": tuple(action["shape"]), "nvec": tuple(action["nvec"])})
    metrics = tuple(values["episode_metrics"])
    return EnvSpec(**{**values, "observation": leaves, "action": action_spec, "episode_metrics": metrics})


def _finite(number: float) -> float | str:
    return number if math.isfinite(number) else str(number)
