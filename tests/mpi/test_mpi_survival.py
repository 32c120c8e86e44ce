"""With fault-tolerant MPI a run goes on without the actors that were lost; exact ones come to the same weights."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.mpi.conftest import Ended, require, result_of

import whorl
from whorl.engines.mpi.finding import find_mpi, installed
from whorl.errors import BadInputError, ConfigError
from whorl.prepare import prepare
from whorl.resolve import config_from_keywords

SURVIVING = (
    *("CartPole-v1", "--engine", "mpi", "--actors", "3", "--envs-per-actor", "2"),
    *("--set", "agent.rows=16", "--set", "engine.ulfm=true", "--set", "engine.response_s=1"),
    *("--set", "env.step_timeout_s=1"),
)
SMALL = ("train", "impala", *SURVIVING)
EXACT = (
    *("train", "ppo", *SURVIVING, "--steps", "480"),
    *("--set", "agent.network.hidden=[16]", "--set", "agent.epochs=1"),
)


@pytest.mark.parametrize("fault", ["kill", "raise", "stop"])
@pytest.mark.verify
def test_the_run_goes_on_without_a_lost_actor(whorl_command, tmp_path: Path, fault: str) -> None:
    require("openmpi")
    steps = 6000  # of 2 ms, so that the run is not over before a stopped rank is noticed, however quick the machine
    slow = [word.replace("CartPole-v1", "whorl/Slow-v0") for word in SMALL]
    slow += ["--set", "env.kwargs.env=CartPole-v1", "--set", "env.kwargs.step_time_s=0.002"]
    ended = whorl_command(
        *slow, "--steps", steps, "--run-dir", tmp_path / "run", WHORL_FAULT=f"actor:1:env_step=70:{fault}"
    )
    assert ended.code == 0, ended.err
    assert re.search(r"actor-1 \(rank 2\) was lost: .*; the run goes on with 2 actors", ended.out)
    found = result_of(tmp_path / "run")
    assert found["status"] == "completed"
    assert found["env_steps"] >= steps
    assert found["transitions"]["lost"] > 0
    assert_balanced(found)


def assert_balanced(found: dict[str, Any]) -> None:
    counts = found["transitions"]
    assert counts["collected"] == sum(counts[name] for name in ("used", "dropped", "lost", "in_flight"))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """The hash of a workflow's final weights where nobody is lost, with all environments in one thread."""

    @cache
    def weights_of(workflow: str) -> str:
        flags = {"workflow": workflow, "engine": "inline", "actors": 1, "envs_per_actor": 6, "steps": 480}
        small = {"agent.rows": 16, "agent.network.hidden": (16,), "agent.epochs": 1}
        folder = tmp_path_factory.mktemp("undisturbed") / workflow
        return whorl.train("ppo", "CartPole-v1", run_dir=folder, set=small, **flags).result.weights_sha256

    return weights_of


def check_exact(
    ended: Ended, folder: Path, sha256: str, told: str = "actor-2 \\(rank 3\\)", left: str = "2 actors"
) -> None:
    assert ended.code == 0, ended.err
    said = " ".join(re.sub(r"\x1b\[[\d;?]*[A-Za-z]|│", "", ended.out).split())  # a launcher's ranks may have a terminal
    assert re.search(rf"{told} was lost: .*; the run goes on with {left}", said), said
    found = result_of(folder)
    assert found["status"] == "completed"
    assert found["exact"]
    assert found["weights_sha256"] == sha256
    assert found["transitions"]["lost"] > 0
    assert found["transitions"]["in_flight"] >= 0
    assert_balanced(found)


LONG = [(workflow, fault) for workflow in ("sync", "overlap") for fault in ("kill", "raise", "stop")]


@pytest.mark.parametrize(
    ("workflow", "fault"),
    [pytest.param(*each, marks=() if each == ("sync", "kill") else pytest.mark.verify) for each in LONG],
)
def test_exact_workflows_share_out_the_environments_of_a_lost_actor(
    whorl_command, undisturbed, tmp_path: Path, workflow: str, fault: str
) -> None:
    require("openmpi")
    words = (*EXACT, "--workflow", workflow, "--run-dir", tmp_path / "run")
    ended = whorl_command(*words, WHORL_FAULT=f"actor:2:env_step=24:{fault}")
    check_exact(ended, tmp_path / "run", undisturbed(workflow))


@pytest.mark.verify
def test_one_loss_after_another_is_borne(whorl_command, undisturbed, tmp_path: Path) -> None:
    require("openmpi")
    faults = "actor:2:env_step=24:kill,actor:1:env_step=40:kill:always"
    ended = whorl_command(*EXACT, "--workflow", "sync", "--run-dir", tmp_path / "run", WHORL_FAULT=faults)
    check_exact(ended, tmp_path / "run", undisturbed("sync"), told="actor-1 \\(rank 2\\)", left="1 actor")


@pytest.mark.verify
def test_two_learners_keep_an_actor_each(whorl_command, tmp_path: Path) -> None:
    """Three are left of four, and go on as two: each learner has the same share of the environments."""
    require("openmpi")
    words = (*EXACT, "--actors", 4, "--envs-per-actor", 1, "--learners", 2, "--workflow", "overlap")
    still = whorl_command(*words, "--run-dir", tmp_path / "still")
    assert still.code == 0, still.err
    ended = whorl_command(*words, "--run-dir", tmp_path / "run", WHORL_FAULT="actor:3:env_step=24:kill")
    check_exact(ended, tmp_path / "run", result_of(tmp_path / "still")["weights_sha256"], told="actor-3 \\(rank 5\\)")


@pytest.mark.verify
@pytest.mark.parametrize("fault", ["kill", "raise", "stop"])
def test_so_do_the_ranks_of_a_launcher(whorl_command, undisturbed, tmp_path: Path, fault: str) -> None:
    require("openmpi")
    found = find_mpi("openmpi", ulfm=True)
    ended = whorl_command(
        *(*EXACT, "--workflow", "sync", "--run-dir", tmp_path / "run"),
        before=[*found.command, "-n", "4"],
        WHORL_FAULT=f"actor:2:env_step=24:{fault}",
        **found.environ,
    )
    check_exact(ended, tmp_path / "run", undisturbed("sync"))


@pytest.mark.verify
def test_ranks_go_on_with_another_number_of_actors(whorl_command, undisturbed, tmp_path: Path) -> None:
    """Without a loss as well: the ranks of the plan before are used again where there are enough."""
    schedule = ("--actors-schedule", "0:2,100:1,200:2,300:3", "--set", "engine.ulfm=false")
    ended = whorl_command(*EXACT, *schedule, "--workflow", "sync", "--run-dir", tmp_path / "run")
    assert ended.code == 0, ended.err
    found = result_of(tmp_path / "run")
    assert found["weights_sha256"] == undisturbed("sync")
    assert_balanced(found)


@pytest.mark.verify
def test_without_the_last_actor_it_ends(whorl_command, tmp_path: Path) -> None:
    require("openmpi")
    faults = ",".join(f"actor:{index}:env_step={step}:kill" for index, step in ((0, 64), (1, 128), (2, 192)))
    ended = whorl_command(*SMALL, "--steps", 20_000, "--run-dir", tmp_path / "run", WHORL_FAULT=faults)
    assert ended.code == 1
    assert "was lost: " in ended.err.splitlines()[-1]
    assert "can be resumed from its last checkpoint" in ended.err.splitlines()[-1]
    assert result_of(tmp_path / "run")["status"] == "failed"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"engine": "local"}, "engine.ulfm is for --engine mpi"),
        ({"engine": "mpi", "workflow": "allreduce", "learners": 2}, "every rank of allreduce is a learner"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        prepare(config_from_keywords("impala", "CartPole-v1", {"actors": 2, "engine.ulfm": True, **given}))


def test_mpich_is_refused() -> None:
    if "mpich" not in installed():
        pytest.skip("needs the wheel of mpich")
    with pytest.raises(BadInputError, match=r"engine\.ulfm needs Open MPI"):
        find_mpi("mpich", ulfm=True)
