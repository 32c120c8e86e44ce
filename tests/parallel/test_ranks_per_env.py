"""``--ranks-per-env``: training with environments of several ranks on the mpi engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import whorl
from accounts import check_account
from whorl.errors import ConfigError, WhorlError
from whorl.prepare import prepare
from whorl.resolve import config_from_keywords

HEAT = {"env.kwargs.cells": 16, "env.kwargs.episode_steps": 12, "agent.rows": 8, "agent.minibatches": 1}
SMALL = {"agent.rows": 8, "agent.minibatches": 1, "agent.epochs": 1}
SHAKY = "tests.parallel.lab_envs:Shaky"


@pytest.mark.usefixtures("mpiexec")
def test_three_actors_with_environments_of_two_ranks_learn_what_one_process_does(tmp_path: Path) -> None:
    """Seven ranks; trajectories are the same bit for bit, and so are the weights."""
    given: dict[str, Any] = {"steps": 72, "envs_per_actor": 1, "actors": 3, "set": HEAT, "quiet": True}
    one = whorl.train("ppo", "whorl/Heat-v0", engine="inline", run_dir=str(tmp_path / "inline"), **given)
    two = whorl.train("ppo", "whorl/Heat-v0", engine="mpi", ranks_per_env=2, run_dir=str(tmp_path / "mpi"), **given)
    assert two.result.status == "completed"
    assert two.result.updates == one.result.updates > 2
    assert two.result.weights_sha256 == one.result.weights_sha256
    assert set(two.result.time_share) == {"learner", "actor", "mate"}


@pytest.mark.usefixtures("mpiexec")
def test_three_actors_with_environments_of_two_ranks_go_at_their_own_pace(tmp_path: Path) -> None:
    """The same seven ranks in a workflow without an order."""
    given: dict[str, Any] = {"steps": 96, "envs_per_actor": 1, "actors": 3, "ranks_per_env": 2, "engine": "mpi"}
    settings = {name: value for name, value in HEAT.items() if name != "agent.minibatches"}
    run = whorl.train("impala", "whorl/Heat-v0", workflow="async", set=settings, run_dir=tmp_path / "run", **given)
    assert run.result.status == "completed"
    check_account(run.path)
    assert run.result.updates > 2
    assert set(run.result.time_share) == {"learner", "actor", "mate"}


@pytest.mark.usefixtures("mpiexec")
def test_what_all_ranks_raise_is_a_fault_like_any_other(tmp_path: Path) -> None:
    given: dict[str, Any] = {"steps": 40, "envs_per_actor": 2, "set": SMALL}
    run = whorl.train("ppo", SHAKY, engine="mpi", ranks_per_env=2, run_dir=str(tmp_path / "run"), **given)
    assert run.result.status == "completed"
    assert "step raised ValueError: diverged at rank 0" in (tmp_path / "run/logs/actor-0.log").read_text()


@pytest.mark.usefixtures("mpiexec")
def test_what_one_rank_raises_while_others_wait_for_it_ends_the_run(tmp_path: Path) -> None:
    given = {**SMALL, "env.kwargs.raises": "rank 1"}
    with pytest.raises(WhorlError, match=r"rank 1 of an environment raised in step.*diverged at rank 1"):
        whorl.train("ppo", SHAKY, engine="mpi", ranks_per_env=2, steps=40, run_dir=str(tmp_path / "run"), set=given)


@pytest.mark.parametrize(
    ("env", "given", "words"),
    [
        ("whorl/Heat-v0", {"engine": "local"}, "--ranks-per-env 2: local has no ranks; use --engine mpi"),
        ("whorl/Heat-v0", {"engine": "inline"}, "--ranks-per-env 2: inline has no ranks; use --engine mpi"),
        ("whorl/Heat-v0", {}, "--ranks-per-env 2: they are those of MPI; use --engine mpi"),
        ("CartPole-v1", {"engine": "mpi"}, "CartPole-v1 is stepped by one rank: leave out --ranks-per-env"),
        ("whorl/Heat-v0", {"engine": "mpi", "env.hosting": "process"}, "leave out env.hosting"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(env: str, given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        prepare(config_from_keywords("ppo", env, {"ranks_per_env": 2, **given}))


def test_one_rank_per_environment_goes_everywhere() -> None:
    assert prepare(config_from_keywords("ppo", "CartPole-v1", {"ranks_per_env": 1})).config.engine.name == "inline"
