"""Each workflow learns: CartPole-v1 to 475. Those that are not exact end at another update each time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import whorl

GOAL_RETURN = 475
JOBS: dict[str, tuple[str, dict[str, Any]]] = {
    "async": ("impala", {"workflow": "async", "actors": 2, "envs_per_actor": 8, "steps": 600_000}),
    "window": ("impala", {"workflow": "window", "actors": 2, "envs_per_actor": 8, "steps": 2_000_000}),
    "queue": ("impala", {"workflow": "queue", "actors": 2, "envs_per_actor": 8, "steps": 600_000}),
    "seed": ("impala", {"workflow": "seed", "actors": 2, "envs_per_actor": 8, "steps": 600_000}),
    "allreduce": ("ddppo", {"learners": 2, "envs_per_actor": 8}),
    "gradients": ("a3c", {}),
    "replay": ("apex", {}),
}

pytestmark = pytest.mark.timeout(900)  # half a minute on an idle machine


@pytest.mark.parametrize("workflow", JOBS)
def test_the_workflow_learns(workflow: str, tmp_path: Path, figure: Callable[[str, object], None]) -> None:
    agent, keywords = JOBS[workflow]
    keywords = {"engine": "local", "run_dir": tmp_path / "run", "stop_return": GOAL_RETURN, **keywords}
    run = whorl.train(agent, "CartPole-v1", **keywords)
    result = run.result
    figure("env_steps", result.env_steps)
    figure("staleness", result.staleness.mean)
    figure("seconds", round(result.wall_s, 1))
    assert result.workflow == workflow
    assert result.transitions.balanced
    assert result.return_mean is not None
    assert result.return_mean >= GOAL_RETURN, f"not reached in {result.env_steps:,} environment steps"
