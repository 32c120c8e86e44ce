"""``async``: everybody goes on, everything is accounted for, nothing too stale is learnt from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import whorl
from whorl.errors import ConfigError
from whorl.runs.result import Result
from whorl.trainer import resume_training

SMALL = {"agent.network.hidden": (16,), "run.checkpoint_every_s": 0.0}
ON_POLICY = {"agent.rows": 16}
REPLAY = {"agent.rows": 8, "agent.learning_starts": 200, "agent.batch_size": 32, "agent.replay.capacity": 2000}
LSTM = {"agent.network.core": "lstm", "agent.network.lstm_size": 8}
JOBS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "impala": ("impala", "CartPole-v1", ON_POLICY),
    "lstm impala": ("impala", "CartPole-v1", {**ON_POLICY, **LSTM}),
    "a2c": ("a2c", "CartPole-v1", {**ON_POLICY, "agent.vtrace": True}),
    "ppo": ("ppo", "Pendulum-v1", {**ON_POLICY, "agent.vtrace": True, "agent.epochs": 2}),
    "dqn": ("dqn", "CartPole-v1", {**REPLAY, "agent.n_step": 3, "agent.gradient_steps": 2}),
    "lstm dqn": ("dqn", "CartPole-v1", {**REPLAY, **LSTM, "agent.burn_in": 2, "agent.gradient_steps": 2}),
    "ddpg": ("ddpg", "Pendulum-v1", {**REPLAY, "agent.replay.prioritised": True, "agent.gradient_steps": 2}),
    "td3": ("td3", "Pendulum-v1", {**REPLAY, "agent.gradient_steps": 2}),
    "sac": ("sac", "Pendulum-v1", {**REPLAY, "agent.gradient_steps": 2}),
}


def train(folder: Path, job: str = "impala", *, more: dict[str, Any] | None = None, **flags: Any) -> Result:
    agent, env, settings = JOBS[job]
    flags = {"engine": "local", "actors": 2, "envs_per_actor": 2, "steps": 1500, **flags}
    run = whorl.train(
        agent, env, workflow="async", run_dir=folder / "run", set={**SMALL, **settings, **(more or {})}, **flags
    )
    result = run.result
    assert run.status == "completed"
    assert not result.exact
    assert result.transitions.balanced
    assert result.transitions.in_flight >= 0
    assert result.transitions.used + result.transitions.dropped == result.env_steps >= flags["steps"]
    return result


@pytest.mark.parametrize("job", JOBS)
def test_every_agent_that_bears_staleness_runs(tmp_path: Path, job: str) -> None:
    engine = "inline" if list(JOBS).index(job) % 2 else "local"
    result = train(tmp_path, job, engine=engine)
    assert result.episodes > 0
    assert result.transitions.dropped == result.transitions.lost == 0


def test_several_learners_hold_the_same_weights_and_share_the_work(tmp_path: Path) -> None:
    result = train(tmp_path, actors=4, learners=2, more={"workflow.trajectories_per_update": 2})
    assert result.env_steps <= result.updates * 2 * 2 * 16  # two trajectories an update, two lanes each


def test_a_staleness_bound_is_kept_and_what_exceeds_it_is_counted(tmp_path: Path) -> None:
    bounded = {"workflow.trajectories_per_update": 1, "workflow.max_staleness": 1}
    result = train(tmp_path, actors=4, more=bounded)
    assert result.staleness.max <= 1
    assert result.transitions.dropped > 0


def test_weights_shown_now_and_then_force_staleness_on_agents_that_accept_it(tmp_path: Path) -> None:
    forced = {"workflow.publish_every": 6, "workflow.accept_stale": True, "agent.vtrace": False}
    result = train(tmp_path, "a2c", engine="inline", more=forced)
    assert result.staleness.max >= 5
    assert result.staleness.mean > 2


def test_inline_interleaves_in_a_fixed_order(tmp_path: Path) -> None:
    """Not exact by contract, yet the same on the same engine with the same actors: what debugging needs."""
    hashes = {train(tmp_path / name, engine="inline").weights_sha256 for name in ("one", "two")}
    assert len(hashes) == 1


@pytest.mark.parametrize("every_s", [0.0, 1000.0])
def test_lost_actors_and_learners_are_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every_s: float) -> None:
    # The actors' faults come long before the learner's: those that are brought back with it strike no more.
    monkeypatch.setenv("WHORL_FAULT", "actor:1:env_step=100:kill,actor:0:env_step=37:raise,learner:0:update=20:kill")
    result = train(tmp_path, steps=3000, more={"run.checkpoint_every_s": every_s})
    assert result.restarts["learner"] == 1
    assert result.restarts["actor"] >= 2
    assert result.transitions.lost > 0


def test_a_stopped_run_goes_on(tmp_path: Path) -> None:
    agent, env, settings = JOBS["dqn"]
    with whorl.Trainer(
        agent,
        env,
        workflow="async",
        engine="local",
        actors=2,
        envs_per_actor=2,
        steps=1500,
        run_dir=tmp_path / "run",
        set={**SMALL, **settings},
    ) as trainer:
        trainer.step(10)
        trainer.save()
        updates = trainer.updates
    assert updates >= 10
    assert resume_training(tmp_path / "run", console=False) == 0
    result = whorl.load(tmp_path / "run").result
    assert result.env_steps >= 1500
    assert result.transitions.balanced


@pytest.mark.parametrize(
    ("job", "more", "says"),
    [
        ("ppo", {"agent.vtrace": False}, "use --set agent.vtrace=true to correct for it, or --workflow sync"),
        ("lstm dqn", {"agent.burn_in": 8}, "must be shorter than agent.rows = 8"),
        ("dqn", {"agent.n_step": 9}, "and one has agent.rows = 8: use at least 9 rows, or a smaller n_step"),
        ("impala", {"workflow.trajectories_per_update": 3}, "use --set workflow.trajectories_per_update=4"),
    ],
)
def test_what_cannot_work_is_refused(tmp_path: Path, job: str, more: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        train(tmp_path, job, more=more, learners=2)
    assert not (tmp_path / "run").exists()


def test_settings_of_async_are_refused_where_they_mean_nothing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="sync always learns from one trajectory of each actor"):
        whorl.train("ppo", "CartPole-v1", run_dir=tmp_path / "run", set={"workflow.max_staleness": 3})


def test_metrics_tell_how_old_experience_is_and_how_much_waits(tmp_path: Path) -> None:
    train(tmp_path, actors=3, more={"workflow.trajectories_per_update": 2})
    metrics = whorl.load(tmp_path / "run").metrics
    assert (metrics["age_s"] > 0).all()
    assert (metrics["age_s"] < 60).all()
    assert (metrics["waiting"] >= 2).all()
