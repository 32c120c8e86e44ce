"""Slow environments of one actor: each goes at its own pace, where the workflow takes trajectories in any order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from uneven_env import FAST_S, SLOW_S

import whorl
from accounts import check_account
from whorl.config.schema import Resources
from whorl.ops.keys import reset_seed
from whorl.runs.checkpoint.reading import load_latest
from whorl.runs.result import Result
from whorl.trainer import resume_training
from whorl.trajectory.lanes import LaneMap, strand_width

SEED = 3
SLOW_LANE = 1
ROWS = 4
SETTINGS = {
    "env.kwargs.slow_seeds": [reset_seed(SEED, SLOW_LANE, 0)],
    "env.hosting": "process",
    "agent.network.hidden": (8,),
    "agent.rows": ROWS,
    "run.checkpoint_every_s": 0.0,
}


def train(folder: Path, workflow: str = "async", agent: str = "impala", steps: int = 400, **more: Any) -> Result:
    run = whorl.train(
        agent,
        "uneven_env:Uneven-v0",
        workflow=workflow,
        engine="local",
        actors=1,
        envs_per_actor=4,
        steps=steps,
        seed=SEED,
        run_dir=folder / "run",
        set={**SETTINGS, **more},
    )
    assert run.status == "completed"
    check_account(run.path)
    assert run.result.return_mean == 5.0
    return run.result


def trajectories_by_lane(folder: Path) -> list[int]:
    checkpoint = load_latest(folder / "run" / "checkpoints")
    assert checkpoint is not None
    return checkpoint.arrays["ledger"]["number"].tolist()


@pytest.mark.parametrize("workflow", ["async", "seed"])
def test_a_slow_environment_holds_up_nobody(tmp_path: Path, workflow: str) -> None:
    train(tmp_path, workflow, **{"workflow.trajectories_per_update": 2})
    numbers = trajectories_by_lane(tmp_path)
    fast = [number for lane, number in enumerate(numbers) if lane != SLOW_LANE]
    assert min(fast) > 4 * numbers[SLOW_LANE]


def test_in_lockstep_every_lane_counts_the_same(tmp_path: Path) -> None:
    train(tmp_path, "sync", **{"env.kwargs.slow_seeds": []})
    assert len(set(trajectories_by_lane(tmp_path))) == 1


def test_a_killed_actor_goes_on_in_every_strand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHORL_FAULT", "actor:0:env_step=30:kill")
    result = train(tmp_path, **{"workflow.trajectories_per_update": 2})
    assert result.restarts["actor"] == 1
    assert 0 < result.transitions.lost <= 4 * 4


def test_a_stopped_run_goes_on_in_every_strand(tmp_path: Path) -> None:
    with whorl.Trainer(
        "impala",
        "uneven_env:Uneven-v0",
        workflow="async",
        engine="local",
        actors=1,
        envs_per_actor=4,
        steps=300,
        seed=SEED,
        run_dir=tmp_path / "run",
        set={**SETTINGS, "workflow.trajectories_per_update": 2},
    ) as trainer:
        trainer.step(12)
    before = trajectories_by_lane(tmp_path)
    assert len(set(before)) > 1
    assert resume_training(tmp_path / "run", console=False) == 0
    assert np.all(np.array(trajectories_by_lane(tmp_path)) >= before)
    check_account(tmp_path / "run")


def test_a_recorded_run_steps_an_actors_environments_as_one(tmp_path: Path) -> None:
    train(tmp_path, **{"run.record_schedule": True, "env.kwargs.slow_seeds": []})
    assert len(set(trajectories_by_lane(tmp_path))) == 1


@pytest.mark.parametrize(("envs", "width"), [(1, 1), (32, 1), (64, 2), (36, 2), (37, 37), (256, 8)])
def test_an_actor_has_no_more_strands_than_its_channel_has_room_for(envs: int, width: int) -> None:
    assert strand_width(envs) == width


def test_strands_cut_the_lanes_of_every_actor() -> None:
    lanes = LaneMap.from_resources(Resources(actors=2, envs_per_actor=6, learners=1), envs_per_strand=2)
    assert (lanes.trajectories, lanes.batch_lanes, lanes.strands_per_actor) == (6, 12, 3)
    assert list(lanes.strands_of_actor(1)) == [3, 4, 5]
    assert list(lanes.lanes_of_strand(4)) == [8, 9]


@pytest.mark.parametrize(("slow_step_s", "chosen"), [(0.001, "process"), (10.0, "inside")])
def test_a_choice_by_measuring_is_made_once(tmp_path: Path, slow_step_s: float, chosen: str) -> None:
    """What an update learns from depends on it: a resume must not come to another one."""
    train(tmp_path, **{"env.hosting": "auto", "env.slow_step_s": slow_step_s, "env.kwargs.slow_seeds": []})
    assert f'hosting = "{chosen}"' in (tmp_path / "run" / "config.toml").read_text()


def test_a_staleness_bound_is_kept_in_every_strand(tmp_path: Path) -> None:
    # Long enough that the slow lane hands something over before the end, also where nothing holds up the fast ones.
    steps = 3 * 3 * int(ROWS * SLOW_S / FAST_S)
    result = train(tmp_path, steps=steps, **{"workflow.trajectories_per_update": 2, "workflow.max_staleness": 2})
    assert result.staleness.max <= 2
    assert result.transitions.dropped > 0
