"""Training on a served environment gives the weights that training on the environment itself gives."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import whorl
from whorl.envs.remote import server
from whorl.errors import BadInputError, ConfigError, EnvironmentFault
from whorl.evaluate import evaluate
from whorl.policy import TrainedPolicy
from whorl.runs.result import Result
from whorl.trainer import load_policy

from .conftest import Serve, ServerProcess

SMALL = {
    "agent.rows": 16,
    "agent.epochs": 2,
    "agent.minibatches": 2,
    "agent.network.hidden": (16, 16),
    "resources.shards": 1,
}
verify = pytest.mark.verify
ENV = "whorl/IdentityBox-v0"


def keywords(where: Path, **more: Any) -> dict[str, Any]:
    changed = more.pop("set", {})
    flags = {"actors": 2, "envs_per_actor": 2, "engine": "inline", "seed": 7, "steps": 300}
    return {"run_dir": where, "set": {**SMALL, **changed}, **flags, **more}


def train(where: Path, env: str, **more: Any) -> whorl.Run:
    return whorl.train("ppo", env, **keywords(where, **more))


def outcome(result: Result) -> tuple[Any, ...]:
    return result.status, result.exact, result.weights_sha256, result.env_steps, result.episodes


@pytest.mark.parametrize(
    ("engine", "hosting"), [("inline", "auto"), ("local", "auto"), pytest.param("local", "process", marks=verify)]
)
def test_weights_are_those_of_the_environment_here(serve: Serve, tmp_path: Path, engine: str, hosting: str) -> None:
    served = serve(ENV)
    there = train(tmp_path / "there", served.address, engine=engine, set={"env.hosting": hosting})
    assert outcome(there.result) == outcome(train(tmp_path / "here", ENV).result)
    assert served.counts["dropped"] == served.counts["refused"] == served.counts["lost"] == 0


@pytest.mark.parametrize("hosting", ["auto", "process"])  # as a vector form, and as single environments
def test_metrics_of_episodes_come_over_the_wire(serve: Serve, tmp_path: Path, hosting: str) -> None:
    env = "whorl/Booster-v0"
    flags = {"steps": 1600, "actors": 1, "engine": "local"}
    there = train(tmp_path / "there", serve(env).address, set={"env.hosting": hosting}, **flags)
    here = train(tmp_path / "here", env, **flags)
    assert outcome(there.result) == outcome(here.result)
    assert 0 < there.metrics["converged_mean"][-1] == here.metrics["converged_mean"][-1]


def test_a_run_outlives_a_restart_of_its_server(
    serve_process: Callable[..., ServerProcess], folder: Path, tmp_path: Path
) -> None:
    address = f"ipc://{folder / 'env.sock'}"
    process = serve_process(ENV, address)
    with whorl.Trainer("ppo", address, **keywords(tmp_path / "there")) as trainer:
        trainer.step(2)  # amid an episode: they are 10 env steps long, and an update has 16 rows
        process.kill()
        serve_process(ENV, address)
        trainer.step(10**9)
    there = Result.read(tmp_path / "there" / "result.json")
    assert outcome(there) == outcome(train(tmp_path / "here", ENV).result)


def test_an_actor_that_is_killed_gets_its_copies_again(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has no copy to spare: the dead actor's must come free, and are brought to where they were."""
    monkeypatch.setattr(server, "GONE_S", 0.5)
    served = serve(ENV, copies=4)
    here = outcome(train(tmp_path / "here", ENV).result)
    monkeypatch.setenv("WHORL_FAULT", "actor:1:env_step=21:kill")
    run = train(tmp_path / "there", served.address, engine="local")
    assert outcome(run.result) == here
    assert run.result.restarts


def test_a_run_without_a_server_ends_with_one_line(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match=r"ipc:///nowhere/env.sock: no answer for 0.5 s"):
        train(tmp_path / "run", "ipc:///nowhere/env.sock", set={"env.kwargs.patience_s": 0.5})


def test_a_policy_is_evaluated_on_a_served_environment(serve: Serve, tmp_path: Path) -> None:
    served = serve(ENV)
    run = train(tmp_path / "run", served.address)
    assert isinstance(run.policy, TrainedPolicy)
    assert len(evaluate(run.policy, episodes=3).returns) == 3


def test_another_environment_at_the_address_is_not_trained_in_the_same_run(serve: Serve, tmp_path: Path) -> None:
    """Also where there is no checkpoint yet whose weights would not fit."""
    first, other = serve("CartPole-v1"), serve("Pendulum-v1")
    train(tmp_path / "run", first.address, engine="inline", steps=64)
    config = tmp_path / "run" / "config.toml"
    config.write_text(config.read_text().replace(first.address, other.address))  # quicker than to end and start them
    for checkpoint in (tmp_path / "run" / "checkpoints").iterdir():
        shutil.rmtree(checkpoint)
    (tmp_path / "run" / "result.json").unlink()
    words = r"has other spaces than the run in .*: expected \(.*discrete\[2\].*, got \("
    with pytest.raises(BadInputError, match=words):
        whorl.Trainer.resume(tmp_path / "run")
    with pytest.raises(BadInputError, match=words):
        load_policy(tmp_path / "run")


def test_too_few_copies_are_refused_before_anything_starts(serve: Serve, tmp_path: Path) -> None:
    address = serve(ENV, copies=3).address
    words = r"4 environments are wanted \(2 actors with 2 each\) and 3 copies are served: serve it with --copies 4"
    with pytest.raises(ConfigError, match=words):
        train(tmp_path / "run", address)
    assert not (tmp_path / "run").exists()
