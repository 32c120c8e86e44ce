"""Prioritised replay finds the way to a rare reward in fewer environment steps than uniform replay does, with DDPG.

The study itself is tools/prioritised_ddpg.py; docs/agents/ddpg.md shows its table and curves.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

TOOL = Path(__file__).parents[2] / "tools" / "prioritised_ddpg.py"

pytestmark = pytest.mark.timeout(1800)


def study() -> ModuleType:
    spec = importlib.util.spec_from_file_location("prioritised_ddpg", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def reached(curve: tuple[list[int], list[float]]) -> bool:
    """The policy moves on everywhere at the end of the run."""
    return curve[1][-1] == 1.0


@pytest.mark.verify
def test_prioritised_replay_is_faster_over_ten_seeds(figure: Callable[[str, object], None]) -> None:
    curves = study().compare(10)
    env_steps = {name: [at[-1] for at, _ in runs] for name, runs in curves.items()}
    for name, values in env_steps.items():
        figure(f"{name}_env_steps_median", float(np.median(values)))
        figure(f"{name}_reached_of_10", sum(map(reached, curves[name])))
    assert all(map(reached, curves["prioritised"]))
    assert np.median(env_steps["prioritised"]) < np.median(env_steps["uniform"])
    pairs = list(zip(env_steps["prioritised"], env_steps["uniform"], strict=True))
    assert sum(ours < theirs for ours, theirs in pairs) >= 5
    assert sum(ours > theirs for ours, theirs in pairs) <= 1
