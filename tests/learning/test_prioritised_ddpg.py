"""With DDPG, prioritised replay learns a rare reward in fewer gradient steps than uniform replay does.

The study is ``whorl study priorities``; docs/agents/ddpg.md shows its table and curves.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from whorl.studies.catalogue.priorities import FULL, SIDES
from whorl.studies.priority_tasks import TASKS, learn


@pytest.mark.verify
@pytest.mark.timeout(1800)
def test_prioritised_replay_is_faster_over_ten_seeds(figure: Callable[[str, object], None]) -> None:
    first = TASKS["ddpg"].first_seed
    curves = {
        name: [learn("ddpg", prioritised, seed, **FULL["ddpg"]) for seed in range(first, first + 10)]
        for name, prioritised in SIDES.items()
    }
    gradient_steps = {name: [curve.gradient_steps for curve in runs] for name, runs in curves.items()}
    learnt = {name: sum(curve.learnt for curve in runs) for name, runs in curves.items()}
    for name, values in gradient_steps.items():
        figure(f"{name}_gradient_steps_median", float(np.median(values)))
        figure(f"{name}_learnt_of_10", learnt[name])
    assert learnt["prioritised"] == 10
    assert 2 * np.median(gradient_steps["prioritised"]) < np.median(gradient_steps["uniform"])
    pairs = list(zip(gradient_steps["prioritised"], gradient_steps["uniform"], strict=True))
    assert sum(ours < theirs for ours, theirs in pairs) >= 8
    assert sum(ours > theirs for ours, theirs in pairs) <= 1
