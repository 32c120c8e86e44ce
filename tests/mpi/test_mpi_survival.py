"""With fault-tolerant MPI a run goes on without the actors that were lost."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.mpi.conftest import require, result_of

from whorl.engines.mpi.finding import find_mpi, installed
from whorl.errors import BadInputError, ConfigError
from whorl.prepare import prepare
from whorl.resolve import config_from_keywords

SMALL = (
    *("train", "impala", "CartPole-v1", "--engine", "mpi", "--actors", "3", "--envs-per-actor", "2"),
    *("--set", "agent.rows=16", "--set", "engine.ulfm=true", "--set", "engine.response_s=1"),
    *("--set", "env.step_timeout_s=1"),
)


@pytest.mark.parametrize("fault", ["kill", "raise", "stop"])
@pytest.mark.verify
def test_the_run_goes_on_without_a_lost_actor(whorl_command, tmp_path: Path, fault: str) -> None:
    require("openmpi")
    steps = 10_000 if fault == "stop" else 3000  # long enough to be noticed
    ended = whorl_command(
        *SMALL, "--steps", steps, "--run-dir", tmp_path / "run", WHORL_FAULT=f"actor:1:env_step=70:{fault}"
    )
    assert ended.code == 0, ended.err
    assert re.search(r"actor-1 \(rank 2\) was lost: .*; the run goes on with 2 actors", ended.out)
    found = result_of(tmp_path / "run")
    assert found["status"] == "completed"
    assert found["env_steps"] >= steps
    counts = found["transitions"]
    assert counts["lost"] > 0
    assert counts["collected"] == sum(counts[name] for name in ("used", "dropped", "lost", "in_flight"))


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
        ({"engine": "mpi", "workflow": "sync"}, "sync cannot go on without one of its ranks"),
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
