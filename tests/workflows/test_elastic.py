"""Another number of actors while a run goes on: nothing is lost, and where results are exact they stay the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import whorl
from accounts import check_account
from made_up_rows import ENV
from whorl.config.actors_schedule import Change, actors_at, parse_schedule
from whorl.config.schema import Config, Resources
from whorl.engines.contract import RoleId
from whorl.errors import BadInputError, ConfigError
from whorl.job import Job
from whorl.runs.result import Result
from whorl.trajectory.lanes import LaneMap
from whorl.workflows.first_come import MOST_SLOTS, slots

SMALL = {"agent.network.hidden": (16,), "agent.rows": 8, "run.checkpoint_every_s": 0.5}


def train(folder: Path, agent: str = "impala", **flags: Any) -> Result:
    flags = {"workflow": "async", "engine": "local", "actors": 4, "envs_per_actor": 2, "steps": 2000, **flags}
    run = whorl.train(agent, "CartPole-v1", run_dir=folder / "run", set=SMALL, **flags)
    assert run.status == "completed"
    check_account(run.path)
    assert run.result.restarts.get("actor", 0) == 0
    return run.result


@pytest.mark.parametrize("engine", ["inline", "local"])
@pytest.mark.parametrize("workflow", ["async", "seed", "window", "queue"])
def test_actors_come_and_go_by_schedule(tmp_path: Path, workflow: str, engine: str) -> None:
    result = train(tmp_path, workflow=workflow, engine=engine, actors_schedule="0:2,500:4,1000:1,1500:3")
    assert result.transitions.lost == 0


def test_a_parameter_server_does_not_mind(tmp_path: Path) -> None:
    assert train(tmp_path, "a3c", workflow="gradients", actors_schedule="0:4,800:2").transitions.lost == 0


@pytest.mark.parametrize("workflow", ["sync", "overlap"])
def test_exact_workflows_come_to_the_same_weights(tmp_path: Path, workflow: str) -> None:
    still = train(tmp_path / "still", "ppo", workflow=workflow, steps=1500)
    moved = train(tmp_path / "moved", "ppo", workflow=workflow, steps=1500, actors_schedule="0:2,400:1,1000:4")
    assert moved.exact
    assert moved.weights_sha256 == still.weights_sha256


def test_a_trainer_is_resized_between_steps(tmp_path: Path) -> None:
    with whorl.Trainer(
        "impala",
        "CartPole-v1",
        workflow="async",
        engine="local",
        actors=3,
        envs_per_actor=2,
        steps=3000,
        run_dir=tmp_path / "run",
        set=SMALL,
    ) as trainer:
        trainer.step(5)
        trainer.resize(1)
        trainer.step(10)
        trainer.resize(3)
        trainer.step(10)
        with pytest.raises(BadInputError, match="planned for at most 3 actors"):
            trainer.resize(4)
    assert check_account(tmp_path / "run").lost == 0


def test_losses_before_a_new_plan_are_counted(tmp_path: Path) -> None:
    flags = {"workflow": "sync", "engine": "local", "actors": 2, "envs_per_actor": 2, "steps": 10**6}
    with whorl.Trainer("ppo", "CartPole-v1", run_dir=tmp_path / "run", set=SMALL, **flags) as trainer:
        trainer.step()
        os.kill(trainer._session.cluster.pids[RoleId("actor", 1)], signal.SIGKILL)  # type: ignore[attr-defined]
        trainer.step(2)
        trainer.resize(1)
        trainer.step()
    assert whorl.load(tmp_path / "run").result.restarts == {"learner": 0, "actor": 1}


def test_an_actor_that_is_wanted_and_not_wanted_at_once_loses_nothing(tmp_path: Path) -> None:
    flags = {"workflow": "async", "engine": "local", "actors": 2, "envs_per_actor": 2, "steps": 10**6}
    with whorl.Trainer("impala", "CartPole-v1", run_dir=tmp_path / "run", set=SMALL, **flags) as trainer:
        trainer.step(5)
        trainer.resize(1)
        trainer.step(20)
        trainer.resize(2)
        trainer.resize(1)
        trainer.step(20)
    transitions = whorl.load(tmp_path / "run").result.transitions
    assert transitions.lost == 0
    assert 0 <= transitions.in_flight < 500


@pytest.mark.parametrize(
    ("workflow", "schedule", "more", "fewest"),
    [
        ("async", "", {}, 2),
        ("seed", "0:8", {}, 2),
        ("async", "0:8,1000000:1", {}, 1),
        ("async", "", {"workflow.trajectories_per_update": 21}, 2),
        ("queue", "", {}, 2),
        ("queue", "", {"workflow.slots": 3}, 3),
        ("window", "", {}, 1),
    ],
)
def test_no_fewer_act_than_have_room_for_a_batch(
    tmp_path: Path, workflow: str, schedule: str, more: dict[str, Any], fewest: int
) -> None:
    with whorl.Trainer(
        "impala",
        "CartPole-v1",
        workflow=workflow,
        engine="inline",
        actors=8,
        envs_per_actor=1,
        actors_schedule=schedule,
        steps=10**6,
        run_dir=tmp_path / "run",
        set={**SMALL, **more},
    ) as trainer:
        if fewest > 1:
            with pytest.raises(BadInputError, match=f"{fewest - 1} of 8 actors cannot hold .* use at least {fewest}"):
                trainer.resize(fewest - 1)
        trainer.resize(fewest)
        trainer.step(20)  # what all had handed over is used up long before


def test_a_batch_that_many_slow_environments_fill_needs_no_room_for_few_actors() -> None:
    """Each has a trajectory of its own, and a quarter of the actors could not hold one of each."""
    config = Config("impala", None, resources=Resources(actors=8, envs_per_actor=32))
    assert slots(Job(config, ENV, hosted=True, envs_per_strand=1)) == MOST_SLOTS


def test_actors_in_the_midst_of_slow_steps_hand_over_what_they_began(tmp_path: Path) -> None:
    slow = {"env.kwargs.env": "CartPole-v1", "env.kwargs.step_time_s": 0.02, "env.hosting": "process"}
    run = whorl.train(
        "impala",
        "whorl/Slow-v0",
        workflow="async",
        engine="local",
        actors=2,
        envs_per_actor=2,
        steps=400,
        actors_schedule="0:2,100:1,250:2",
        run_dir=tmp_path / "run",
        set={**SMALL, **slow},
    )
    check_account(run.path)
    assert run.result.transitions.lost == 0
    assert set(run.result.restarts.values()) == {0}


def test_another_process_asks_for_it(tmp_path: Path) -> None:
    def command(*arguments: object) -> list[str]:
        return [sys.executable, "-m", "whorl", *map(str, arguments)]

    run_dir = tmp_path / "run"
    job = ("train", "impala", "CartPole-v1", "--workflow", "async", "--engine", "local", "--actors", 2)
    training = subprocess.Popen(
        command(*job, "--steps", 10**8, "--run-dir", run_dir, "--set", "agent.rows=8"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        while not (run_dir / "metrics.jsonl").exists() or not (run_dir / "metrics.jsonl").stat().st_size:
            assert training.poll() is None
            time.sleep(0.1)
        smaller = subprocess.run(command("resize", run_dir, 1), capture_output=True, text=True, timeout=60)
        assert (smaller.returncode, smaller.stdout) == (0, "from now on 1 actor, not 2\n")
        larger = subprocess.run(command("resize", run_dir, 9), capture_output=True, text=True, timeout=60)
        assert larger.returncode == 2
        assert "planned for at most 2 actors" in larger.stderr
    finally:
        training.terminate()
        said, _ = training.communicate(timeout=60)
    assert training.returncode == 75
    assert "note: from here on 1 actor, not 2" in said
    over = subprocess.run(command("resize", run_dir, 2), capture_output=True, text=True, timeout=60)
    assert over.returncode == 2
    assert "does not go on" in over.stderr


def test_every_replay_keeps_an_actor(tmp_path: Path) -> None:
    """One without any would wait for its trajectories until the run's patience is over."""
    small = {**SMALL, "agent.learning_starts": 100, "agent.batch_size": 16, "agent.replay.capacity": 2000}
    flags = {"workflow": "replay", "engine": "inline", "actors": 4, "envs_per_actor": 1, "steps": 10**6}
    shards = {"workflow.replay_shards": 2}
    with whorl.Trainer("dqn", "CartPole-v1", run_dir=tmp_path / "run", set={**small, **shards}, **flags) as trainer:
        with pytest.raises(BadInputError, match="1 actors are too few: each of 2 replays needs one"):
            trainer.resize(1)
        trainer.step(5)
        trainer.resize(2)
        assert trainer._session.job.acting(2) == [0, 2]
        trainer.step(20)
    check_account(tmp_path / "run")


def test_a_schedule_is_read() -> None:
    assert parse_schedule("0:8, 50000:4,100000:2") == [Change(0, 8), Change(50000, 4), Change(100000, 2)]
    resources = Resources(actors=8, actors_schedule="0:8,50000:4")
    assert [actors_at(resources, steps) for steps in (0, 49_999, 50_000)] == [8, 8, 4]


@pytest.mark.parametrize(
    ("schedule", "says"),
    [
        ("0:8,100:0", "at least one actor must stay"),
        ("5:8", "it must begin with 0:ACTORS"),
        ("0:8,100:4,100:2", "its environment steps must grow"),
        ("0:8,often:4", "'often:4' is not ENV_STEPS:ACTORS"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused(tmp_path: Path, schedule: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        train(tmp_path, actors_schedule=schedule)
    assert not (tmp_path / "run").exists()


def test_environments_that_cannot_be_shared_out_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"over 3 actors: use one of 1, 2, 4, 8"):
        train(tmp_path, "ppo", workflow="sync", actors_schedule="0:4,100:3")


def test_every_learner_keeps_its_share_of_actors() -> None:
    lanes = LaneMap.from_resources(Resources(actors=6, envs_per_actor=1, learners=2))
    assert lanes.acting(3, groups=2) == [0, 3, 1]
