"""With DDPG, prioritised replay learns a rare reward in fewer gradient steps than uniform replay does.

The study itself is tools/prioritised_study.py; docs/agents/ddpg.md shows its table and curves.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

TOOL = Path(__file__).parents[2] / "tools" / "prioritised_study.py"


@pytest.mark.verify
@pytest.mark.timeout(1800)
def test_prioritised_replay_is_faster_over_ten_seeds(figure: Callable[[str, object], None]) -> None:
    study = runpy.run_path(str(TOOL))
    ddpg = study["STUDIES"]["ddpg"]
    curves = study["compare"](ddpg, 10)
    gradient_steps = {name: [taken[-1] for taken, _ in runs] for name, runs in curves.items()}
    learnt = {name: sum(ddpg.learnt(measured[-1]) for _, measured in runs) for name, runs in curves.items()}
    for name, values in gradient_steps.items():
        figure(f"{name}_gradient_steps_median", float(np.median(values)))
        figure(f"{name}_learnt_of_10", learnt[name])
    assert learnt["prioritised"] == 10
    assert 2 * np.median(gradient_steps["prioritised"]) < np.median(gradient_steps["uniform"])
    pairs = list(zip(gradient_steps["prioritised"], gradient_steps["uniform"], strict=True))
    assert sum(ours < theirs for ours, theirs in pairs) >= 8
    assert sum(ours > theirs for ours, theirs in pairs) <= 1
