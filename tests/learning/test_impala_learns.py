"""IMPALA's preset reaches its goal, on fresh data and on data one update old. One seed here, three in `make verify`."""

from __future__ import annotations

from pathlib import Path

import pytest

import whorl

GOAL_RETURN = 475

pytestmark = pytest.mark.timeout(600)  # alone on a core it takes about ten seconds


def balances(workflow: str, seed: int, folder: Path) -> None:
    run = whorl.train(
        "impala", "CartPole-v1", workflow=workflow, seed=seed, stop_return=GOAL_RETURN, run_dir=folder / "run"
    )
    result = run.result
    assert run.status == "completed"
    assert result.return_mean is not None
    assert result.return_mean >= GOAL_RETURN, f"not reached in {result.env_steps:,} environment steps"
    assert result.exact
    assert result.staleness.max == (1 if workflow == "overlap" else 0)


@pytest.mark.parametrize("workflow", ["sync", "overlap"])
def test_impala_balances_the_pole(workflow: str, tmp_path: Path) -> None:
    balances(workflow, 1, tmp_path)


@pytest.mark.verify
@pytest.mark.parametrize("seed", [2, 3])
@pytest.mark.parametrize("workflow", ["sync", "overlap"])
def test_impala_balances_the_pole_for_each_seed(workflow: str, seed: int, tmp_path: Path) -> None:
    balances(workflow, seed, tmp_path)
