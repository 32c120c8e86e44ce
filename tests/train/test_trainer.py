"""A run under the user's own loop: where it goes on after a resume, and what is left of one that failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import whorl
from whorl.errors import ConfigError, EnvironmentFault
from whorl.prepare import prepare
from whorl.resolve import config_from_keywords
from whorl.runs.result import Result

SMALL = {"agent.rows": 16, "agent.network.hidden": (8, 8), "agent.epochs": 1, "agent.minibatches": 1}


def trainer(run_dir: Path, env: str = "CartPole-v1", engine: str = "inline", **settings: Any) -> whorl.Trainer:
    return whorl.Trainer(
        "ppo", env, run_dir=run_dir, steps=2000, engine=engine, envs_per_actor=8, set={**SMALL, **settings}
    )


def test_a_resumed_run_knows_at_once_how_far_it_is(tmp_path: Path) -> None:
    with trainer(tmp_path / "run") as run:
        run.step(3)
        env_steps = run.env_steps
    with whorl.Trainer.resume(tmp_path / "run") as run:
        assert (run.updates, run.env_steps) == (3, env_steps)
        assert run.step()["update"] == 4


@pytest.mark.parametrize("engine", ["inline", "local"])
def test_a_failed_run_tells_how_far_it_came_and_why_it_failed(tmp_path: Path, engine: str) -> None:
    broken = {"env.kwargs.at": 70, "env.kwargs.env": "Pendulum-v1", "env.hosting": "inside"}
    with (
        pytest.raises(EnvironmentFault, match="got nan"),
        trainer(tmp_path / "run", "whorl/NaN-v0", engine, **broken) as run,
    ):
        run.step(10**9)
    result = Result.read(tmp_path / "run" / "result.json")
    assert result.status == "failed"
    assert result.error is not None
    assert "got nan" in result.error
    assert (result.updates, result.env_steps) == (4, 4 * 16 * 8)
    assert result.weights_sha256 == ""
    assert result.transitions.used == result.env_steps
    assert result.transitions.balanced


def test_an_annealed_learning_rate_begins_whole_and_never_reaches_0(tmp_path: Path) -> None:
    annealed = {"agent.anneal": "linear", "agent.learning_rate": 1e-3}
    with trainer(tmp_path / "run", "Pendulum-v1", **annealed) as run:
        rates = []
        while not run.done:
            rates.append(run.step()["learning_rate"])
    assert rates[0] == 1e-3
    assert 0 < rates[-1] < 1e-4


@pytest.mark.parametrize(
    ("agent", "settings", "envs", "said"),
    [
        ("ppo", {"agent.rows": 12, "agent.minibatches": 97}, 8, "need 9 environments in each shard of a batch, .* 8:"),
        ("ppo", {"agent.minibatches": 4, "agent.network.core": "lstm"}, 2, "need 4 environments .* and there are 2:"),
        (
            "ppo",
            {"agent.minibatches": 4, "agent.network.core": "lstm", "resources.shards": 2},
            6,
            "4 .* and there are 3:",
        ),
        ("impala", {"agent.minibatches": 9}, 8, "need 9 environments .* use more environments or fewer minibatches"),
    ],
)
def test_a_minibatch_that_would_be_empty_is_refused_before_anything_is_written(
    tmp_path: Path, agent: str, settings: dict[str, Any], envs: int, said: str
) -> None:
    options: dict[str, Any] = {"workflow": "sync", "envs_per_actor": envs, "run_dir": tmp_path / "run"}
    with pytest.raises(ConfigError, match=said):
        whorl.train(agent, "CartPole-v1", steps=100, set=settings, **options)
    assert not (tmp_path / "run").exists()


SEQUENCES = {"agent.network.core": "lstm", "agent.network.lstm_size": 4, "agent.batch_size": 2}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"agent.batch_size": 33, "resources.shards": 2}, "evenly from 2 shards: use a multiple such as 32"),
        ({"agent.replay.capacity": 100}, "leaves 12 rows for each of 8 .* use a capacity of at least"),
        ({"agent.replay.capacity": 150, **SEQUENCES}, "leaves 18 rows for each of 8 .* use a capacity of at least"),
    ],
    ids=["shards", "rows", "sequences"],
)
def test_draws_that_do_not_fit_are_refused_before_anything_is_written(
    tmp_path: Path, settings: dict[str, Any], said: str
) -> None:
    given = {"agent.rows": 16, "agent.batch_size": 32, "agent.learning_starts": 50, **settings}
    for workflow in ("sync", "async"):
        with pytest.raises(ConfigError, match=said):
            whorl.train("dqn", "CartPole-v1", workflow=workflow, run_dir=tmp_path / "run", envs_per_actor=8, set=given)
    assert not (tmp_path / "run").exists()


def test_a_run_that_ends_before_learning_starts_is_warned_of() -> None:
    for steps, warned in ((1000, True), (1001, False)):
        job = prepare(config_from_keywords("sac", "Pendulum-v1", {"steps": steps, "agent.learning_starts": 1000}))
        assert any("until then nothing is learnt" in warning for warning in job.warnings) is warned
