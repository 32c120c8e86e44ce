"""``window`` and ``queue``: any learner may read any actor's trajectories, and everything is accounted for."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from counted_episodes import episodes_begun

import whorl
from whorl.engines.contract import RoleId
from whorl.errors import ConfigError
from whorl.runs.result import Result
from whorl.trainer import resume_training

SMALL = {"agent.network.hidden": (16,), "run.checkpoint_every_s": 1000.0}
ON_POLICY = {**SMALL, "agent.rows": 16}
REPLAY = {**SMALL, "agent.rows": 8, "agent.learning_starts": 200, "agent.batch_size": 32, "agent.gradient_steps": 2}
LSTM = {"agent.network.core": "lstm", "agent.network.lstm_size": 8}
KEYWORDS: dict[str, Any] = {"engine": "local", "actors": 2, "envs_per_actor": 2, "steps": 1500}
WORKFLOWS = ["window", "queue"]
RANDOM: dict[str, dict[str, Any]] = {"window": {"workflow.choice": "random"}, "queue": {}}


def checked(result: Result, steps: int = 1500) -> Result:
    transitions = result.transitions
    assert result.status == "completed"
    assert not result.exact
    assert transitions.balanced
    assert transitions.in_flight >= 0
    assert transitions.used + transitions.dropped == result.env_steps >= steps
    return result


def train(
    folder: Path, workflow: str, agent: str = "impala", env: str = "CartPole-v1", *, settings: Any = None, **flags: Any
) -> Result:
    flags = {**KEYWORDS, **flags}
    run = whorl.train(agent, env, workflow=workflow, run_dir=folder / "run", set=settings or ON_POLICY, **flags)
    return checked(run.result, flags["steps"])


@pytest.mark.parametrize(
    ("workflow", "engine", "agent", "env", "settings"),
    [
        ("window", "local", "impala", "CartPole-v1", {**ON_POLICY, **LSTM}),
        ("window", "inline", "ppo", "Pendulum-v1", {**ON_POLICY, "agent.vtrace": True, "agent.epochs": 2}),
        ("window", "inline", "dqn", "CartPole-v1", REPLAY),
        ("queue", "local", "dqn", "CartPole-v1", {**REPLAY, **LSTM, "agent.burn_in": 2}),
        ("queue", "inline", "a2c", "CartPole-v1", {**ON_POLICY, "agent.vtrace": True}),
        ("queue", "inline", "sac", "Pendulum-v1", REPLAY),
    ],
)
def test_agents_that_bear_staleness_run(
    tmp_path: Path, workflow: str, engine: str, agent: str, env: str, settings: dict[str, Any]
) -> None:
    result = train(tmp_path, workflow, agent, env, settings=settings, engine=engine)
    assert result.episodes > 0
    assert result.transitions.lost == result.transitions.reused == 0


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_returns_and_lengths_of_episodes_are_right_though_nobody_sees_all_of_them(
    tmp_path: Path, workflow: str
) -> None:
    """Three learners, episodes of 20 steps of 1 each, trajectories that are shorter; rewards are normalised."""
    settings = {**ON_POLICY, **RANDOM[workflow], "agent.rows": 7, "agent.normalise_rewards": True}
    settings |= {"workflow.trajectories_per_update": 3, "env.kwargs.path": str(tmp_path / "resets")}
    result = train(
        tmp_path, workflow, env="counted_episodes:Counted-v0", settings=settings, actors=4, learners=3, engine="inline"
    )
    assert result.episodes > 5
    assert result.return_mean == 20
    metrics = whorl.load(tmp_path / "run").metrics
    assert metrics["length_mean"][-1] == 20


@pytest.mark.parametrize("engine", ["inline", "local"])
@pytest.mark.parametrize(("workflow", "choice"), [("window", {}), ("window", RANDOM["window"]), ("queue", {})])
def test_several_learners_share_the_work(tmp_path: Path, workflow: str, choice: dict[str, Any], engine: str) -> None:
    """Groups of different sizes, where each learner takes one trajectory an update."""
    settings = {**ON_POLICY, **choice, "workflow.trajectories_per_update": 2}
    result = train(tmp_path, workflow, settings=settings, engine=engine, actors=3, learners=2)
    used = result.transitions.used + result.transitions.reused
    assert used <= result.updates * 2 * 2 * 16
    if workflow == "queue":
        assert result.transitions.dropped == 0
    if not choice:
        assert result.transitions.reused == 0


@pytest.mark.parametrize(("windows", "learners"), [(6, 3), (8, 4)])
def test_random_windows_are_read_twice_as_often_as_theory_says(tmp_path: Path, windows: int, learners: int) -> None:
    """Of actors that show one trajectory for each update every learner draws one."""
    settings = {**ON_POLICY, "agent.rows": 2, "agent.network.hidden": (4,), "workflow.choice": "random"}
    settings |= {"workflow.trajectories_per_update": learners, "env.max_episode_steps": 2}
    keywords: dict[str, Any] = {"actors": windows, "learners": learners, "envs_per_actor": 1}
    workflow = "whorl.studies.paced_window:PACED"
    result = train(tmp_path, workflow, settings=settings, engine="inline", steps=300 * windows, **keywords)
    read = result.transitions.used + result.transitions.reused
    expected = 1 - windows / learners * (1 - (1 - 1 / windows) ** learners)
    assert result.transitions.reused / read == pytest.approx(expected, abs=0.03)


def test_more_learners_than_windows_may_choose_at_random(tmp_path: Path) -> None:
    settings = {**ON_POLICY, "workflow.choice": "random"}
    result = train(tmp_path, "window", settings=settings, engine="inline", actors=1, learners=2)
    assert result.transitions.reused > 0.3 * result.transitions.used


def test_a_trajectory_is_learnt_from_as_often_as_is_allowed(tmp_path: Path) -> None:
    """Slow steps: the learner would be ready many times over."""
    slow = {**ON_POLICY, "agent.rows": 4, "env.kwargs.env": "CartPole-v1", "env.kwargs.step_time_s": 0.01}
    slow |= {"env.hosting": "inside", "workflow.trajectories_per_update": 1}
    once = train(tmp_path / "once", "window", env="whorl/Slow-v0", settings=slow, steps=200)
    assert once.transitions.reused == 0
    thrice = train(
        tmp_path / "thrice", "window", env="whorl/Slow-v0", settings={**slow, "workflow.max_reuse": 3}, steps=200
    )
    assert 1.5 * thrice.transitions.used < thrice.transitions.reused <= 2 * thrice.transitions.used


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_a_staleness_bound_is_kept_and_what_exceeds_it_is_counted(tmp_path: Path, workflow: str) -> None:
    settings = {**ON_POLICY, "workflow.trajectories_per_update": 1, "workflow.max_staleness": 1}
    result = train(tmp_path, workflow, settings=settings, actors=4)
    assert result.staleness.max <= 1
    assert result.transitions.dropped > 0


def test_a_learner_without_data_of_its_own_helps_others(tmp_path: Path) -> None:
    """The only actor of the second learner stands still; both learners learn on."""
    keywords = {**KEYWORDS, "learners": 2, "steps": 10**6}
    settings = {**ON_POLICY, "workflow.trajectories_per_update": 2}
    with whorl.Trainer(
        "impala", "CartPole-v1", workflow="queue", run_dir=tmp_path / "run", set=settings, **keywords
    ) as trainer:
        trainer.step(2)
        pid = trainer._session.cluster.pids[RoleId("actor", 1)]
        os.kill(pid, signal.SIGSTOP)
        try:
            started = time.monotonic()
            trainer.step(20)
            assert time.monotonic() - started < 8  # no sooner is the one that stands still given up
        finally:
            os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("workflow", WORKFLOWS)
@pytest.mark.parametrize("env", ["Counted-v0", "Saved-v0"])
def test_lost_actors_are_replaced_and_no_episode_is_played_twice(tmp_path: Path, workflow: str, env: str) -> None:
    """Without snapshots every reset is of another episode; with them the lanes go on in the episodes they were in."""
    resets = tmp_path / "resets"
    settings = {**ON_POLICY, "env.kwargs.path": str(resets), "env.kwargs.length": 10**6, "env.hosting": "inside"}
    with whorl.Trainer(
        "impala",
        f"counted_episodes:{env}",
        workflow=workflow,
        run_dir=tmp_path / "run",
        set=settings,
        **{**KEYWORDS, "steps": 10**8, "learners": 2},
    ) as trainer:
        for actor in (0, 1, 1):
            trainer.step(2)
            cluster = trainer._session.cluster
            before = cluster.restarts["actor"]
            os.kill(cluster.pids[RoleId("actor", actor)], signal.SIGKILL)
            started = time.monotonic()
            while cluster.restarts["actor"] == before or RoleId("actor", actor) not in cluster.pids:
                trainer.step(1)
            assert time.monotonic() - started < 3
        trainer.step(5)
        if env == "Counted-v0":  # the last replacement is up, and may still be about to begin
            stop = time.monotonic() + 20
            while len(episodes_begun(resets, lanes=4)) < 4 + 2 * 2 and time.monotonic() < stop:
                trainer.step(1)
    result = whorl.load(tmp_path / "run").result
    assert result.restarts == {"learner": 0, "actor": 3}
    assert result.transitions.balanced
    assert result.transitions.in_flight >= 0
    assert 0 <= result.transitions.lost <= 3 * 2 * 16  # of each at most a trajectory that was not complete
    begun = episodes_begun(resets, lanes=4)
    if env == "Counted-v0":
        assert len(begun) == len(set(begun))
        assert 4 + 2 * 2 <= len(begun) <= 4 + 3 * 2  # one that dies as soon as it is up begins none
    else:
        assert sorted(set(begun)) == [(lane, 0) for lane in range(4)]


@pytest.mark.parametrize("every_s", [0.0, 1000.0])
@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_a_lost_learner_begins_again_at_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workflow: str, every_s: float
) -> None:
    monkeypatch.setenv("WHORL_FAULT", "actor:1:env_step=100:kill,learner:1:update=7:kill")
    settings = {**ON_POLICY, "run.checkpoint_every_s": every_s}
    # In a window, rows that nobody learns from count as well: a quick actor must not end the run before update 7.
    result = train(tmp_path, workflow, settings=settings, learners=2, steps=200_000 if workflow == "window" else 6000)
    assert result.restarts["learner"] == 1
    assert result.transitions.lost > 0


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_a_stopped_run_goes_on_with_other_actors(tmp_path: Path, workflow: str) -> None:
    resets = tmp_path / "resets"
    settings = {**ON_POLICY, "env.kwargs.path": str(resets), "env.kwargs.length": 10**6}
    # In a window, rows that nobody learns from count as well, and the actors are quick.
    steps = 50_000 if workflow == "window" else 3000
    flags = {**KEYWORDS, "steps": steps}
    with whorl.Trainer(
        "impala", "counted_episodes:Counted-v0", workflow=workflow, run_dir=tmp_path / "run", set=settings, **flags
    ) as trainer:
        trainer.step(10)
        stopped_at = trainer.env_steps
    assert resume_training(tmp_path / "run", console=False, actors=4) == 0
    result = checked(whorl.load(tmp_path / "run").result, steps)
    assert 0 < stopped_at < result.env_steps
    begun = episodes_begun(resets, lanes=4)
    assert len(begun) == len(set(begun)) == 4 + 4
    assert whorl.load(tmp_path / "run").metrics["faults"][-1] == 4  # each an episode that could not be gone on with


def test_inline_interleaves_in_a_fixed_order(tmp_path: Path) -> None:
    for workflow in WORKFLOWS:
        settings = {**ON_POLICY, **RANDOM[workflow]}
        hashes = {
            train(
                tmp_path / workflow / name, workflow, settings=settings, engine="inline", learners=2, steps=300
            ).weights_sha256
            for name in ("one", "two")
        }
        assert len(hashes) == 1


@pytest.mark.parametrize(
    ("workflow", "agent", "more", "flags", "says"),
    [
        ("window", "impala", {}, {"learners": 3}, "use --actors 3, or --set workflow.choice=random"),
        ("queue", "impala", {}, {"learners": 3}, "use --actors 3, or fewer learners"),
        ("queue", "impala", {"workflow.slots": 2, "workflow.trajectories_per_update": 6}, {}, "workflow.slots=3"),
        ("queue", "impala", {"workflow.slots": 129}, {}, "at most 128"),
        ("window", "impala", {"workflow.max_reuse": 0}, {}, "at least 1"),
        ("window", "impala", {"workflow.choice": "any"}, {}, "random"),
        ("window", "impala", {"workflow.slots": 2}, {}, "workflow.slots means nothing in window"),
        ("async", "impala", {"workflow.choice": "random"}, {}, "workflow.choice means nothing in async"),
        ("window", "ppo", {}, {}, "use --set agent.vtrace=true to correct for it, or --workflow sync"),
        ("queue", "a2c", {}, {}, "use --set agent.vtrace=true to correct for it, or --workflow sync"),
        ("queue", "impala", {"run.record_schedule": True}, {}, "queue has no schedule to record"),
    ],
)
def test_what_cannot_work_is_refused(
    tmp_path: Path, workflow: str, agent: str, more: dict[str, Any], flags: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        train(tmp_path, workflow, agent, settings={**ON_POLICY, **more}, **flags)
    assert not (tmp_path / "run").exists()
