"""``whorl/Process-v0`` with a program that is itself an MPI job: its own ranks, whoever has started us."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.parallel.conftest import find_mpiexec

from whorl.envs.launchers import under_launcher, without_launcher
from whorl.envs.registry import make_env

# Each rank has a share of the sum that is observed; rank 0 talks. An episode is one step: ranks that are killed in the
# middle of one leave MPICH's shared memory behind.
SOLVER = """
import json, os, sys
import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
while True:
    line = sys.stdin.readline() if world.rank == 0 else ""
    word = np.array([float(json.loads(line).get("action", 0)) if line else -1.0])
    world.Bcast(word, 0)
    if word[0] < 0:
        break
    total = np.zeros(1)
    world.Reduce(word * (world.rank + 1), total)
    if world.rank == 0:
        answer = {"observation": [total[0], world.size], "reward": 1.0, "truncated": "action" in json.loads(line)}
        print(json.dumps(answer), flush=True)
"""

# As an actor under mpiexec would: it makes the environment, and steps it.
ACTOR = """
import json, sys
from whorl.envs.launchers import under_launcher
from whorl.envs.registry import make_env
assert under_launcher()
env = make_env("whorl/Process-v0", json.loads(sys.argv[1]))
first, _ = env.reset(seed=1)
second = env.step(2)[0]
env.close()
print(json.dumps([first.tolist(), second.tolist()]))
"""


@pytest.fixture
def solver(tmp_path: Path) -> dict[str, object]:
    program = tmp_path / "solver.py"
    program.write_text(SOLVER)
    command = [find_mpiexec(), "-n", "2", sys.executable, str(program)]
    return {
        "command": command,
        "observation": {"shape": [2]},
        "action": 4,
        "scratch": str(tmp_path / "scratch"),
        "exit_timeout_s": 10,
    }


def test_a_program_of_two_ranks_is_an_environment(solver: dict[str, object]) -> None:
    with contextlib.closing(make_env("whorl/Process-v0", solver)) as env:
        assert env.reset(seed=1)[0].tolist() == [0.0, 2.0]
        assert env.step(3)[0].tolist() == [9.0, 2.0]  # 3 * 1 + 3 * 2


def test_it_has_its_own_ranks_below_another_mpiexec(solver: dict[str, object], tmp_path: Path) -> None:
    actor = tmp_path / "actor.py"
    actor.write_text(ACTOR)
    outer = [find_mpiexec(), "-n", "1", sys.executable, str(actor), json.dumps(solver)]
    said = subprocess.run(outer, env=without_launcher(os.environ), capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    assert json.loads(said.stdout) == [[0.0, 2.0], [6.0, 2.0]]


def test_what_launchers_set_is_taken_away_and_what_users_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    told = ("PMI_RANK", "PMI_FD", "PMIX_NAMESPACE", "OMPI_COMM_WORLD_RANK", "MPI_LOCALRANKID", "SLURM_PROCID")
    told += ("OMPI_MCA_ess_base_jobid", "PRTE_LAUNCHED", "SLURM_STEP_ID", "PALS_RANKID", "HYDI_CONTROL_FD")
    kept = ("PATH", "OMPI_MCA_osc", "OMPI_ALLOW_RUN_AS_ROOT", "SLURM_JOB_ID", "MPIR_CVAR_ASYNC_PROGRESS", "PMIXER")
    environment = dict.fromkeys((*told, *kept), "x")
    assert set(without_launcher(environment)) == set(kept)
    monkeypatch.delenv("PMI_RANK", raising=False)
    assert not under_launcher()
    monkeypatch.setenv("PMI_RANK", "0")
    assert under_launcher()
