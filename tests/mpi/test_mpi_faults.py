"""A rank that is killed, stopped or raises ends the job: soon, named, and with its checkpoint intact."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from tests.mpi.conftest import require, result_of

from whorl.engines.mpi.finding import installed

SMALL = (
    *("train", "ppo", "CartPole-v1", "--engine", "mpi", "--actors", "2", "--envs-per-actor", "2", "--steps", "100000"),
    *("--quiet", "--set", "agent.rows=16", "--set", "run.checkpoint_every_s=0", "--set", "engine.response_s=2"),
    *("--set", "env.step_timeout_s=2"),
)
CAUSES = {
    "kill": ("killed by SIGKILL", "its process has ended before its role"),  # not every launcher says who was first
    "raise": ("InjectedFault: raised on purpose",),
    "stop": ("its process is stopped",),
    "exit0": ("its process has ended before its role",),
    "segfault": ("actor-1 (rank 2) was lost",),
    "hang": ("did not answer for 2",),
}
LONG = [(fault, mpi) for mpi in ("mpich", "openmpi") for fault in CAUSES]


def newest_checkpoint(folder: Path) -> Path:
    return max((folder / "checkpoints").glob("update-*"))


def check(whorl_command, folder: Path, fault: str, mpi: str) -> None:
    require(mpi)
    ended = whorl_command(
        *SMALL, "--run-dir", folder, "--set", f"engine.mpi={mpi}", WHORL_FAULT=f"actor:1:env_step=64:{fault}"
    )
    assert ended.code == 1
    (line,) = ended.err.splitlines()
    assert line.startswith("whorl: error: actor-1 (rank 2) was lost: ")
    assert any(cause in line for cause in CAUSES[fault])
    assert result_of(folder)["status"] == "failed"
    deadline_s = 2.0 if fault in ("stop", "hang") else 0.0
    newest = newest_checkpoint(folder)
    assert ended.ended_at - newest.stat().st_mtime < 5.0 + deadline_s + 3.0  # the fault comes within an update or two


@pytest.mark.parametrize("fault", ["kill", "stop", "raise"])
def test_a_lost_rank_ends_the_job_and_is_named(whorl_command, tmp_path: Path, fault: str) -> None:
    check(whorl_command, tmp_path / "run", fault, "mpich")
    if fault == "kill":
        updates = result_of(tmp_path / "run")["updates"]
        ended = whorl_command("resume", tmp_path / "run", "--steps", 400, "--engine", "inline", "--quiet")
        assert ended.code == 0
        assert result_of(tmp_path / "run")["updates"] >= updates > 0


@pytest.mark.verify
@pytest.mark.parametrize(("fault", "mpi"), LONG)
def test_a_lost_rank_ends_the_job_on_every_mpi(whorl_command, tmp_path: Path, fault: str, mpi: str) -> None:
    check(whorl_command, tmp_path / "run", fault, mpi)


def begun(folder: Path, *before: str, **environ: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [*before, sys.executable, "-m", "whorl", *SMALL, "--run-dir", str(folder)],
        env={**os.environ, **environ},
        stderr=subprocess.PIPE,
        text=True,
    )
    end = time.monotonic() + 40
    while not list((folder / "checkpoints").glob("update-*")):
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        assert time.monotonic() < end
        time.sleep(0.05)
    return process


def test_ranks_end_with_a_driver_that_is_killed(tmp_path: Path) -> None:
    process = begun(tmp_path / "run")
    family = psutil.Process(process.pid).children(recursive=True)
    assert len(family) >= 4
    process.kill()
    process.communicate()
    _, alive = psutil.wait_procs(family, timeout=5.0)
    assert not alive


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR2])
def test_a_signal_saves_and_the_exit_code_says_so(tmp_path: Path, number: signal.Signals) -> None:
    """Of those that Slurm's ``--signal`` sends, the launcher and the ranks get one, too."""
    process = begun(tmp_path / "run")
    others = psutil.Process(process.pid).children(recursive=True) if number != signal.SIGTERM else []
    for each in [*others, process]:
        each.send_signal(number)
    assert process.wait(20) == 75
    assert process.stderr is not None
    process.stderr.close()
    assert result_of(tmp_path / "run")["status"] == "preempted"


@pytest.mark.verify
@pytest.mark.parametrize("victim", [0, 2])
def test_under_a_launcher_the_driver_has_the_last_word(tmp_path: Path, victim: int) -> None:
    require("mpich")
    launcher = installed()["mpich"]
    process = begun(tmp_path / "run", *launcher.command, "-n", "3", **launcher.environ)
    ranks = [
        child.pid
        for child in psutil.Process(process.pid).children(recursive=True)
        if child.environ().get("PMI_RANK") == str(victim) and "WHORL_MPI_DRIVER" not in child.environ()
    ]
    os.kill(ranks[0], signal.SIGKILL)
    _, said = process.communicate(timeout=15)
    assert process.returncode != 0
    end = time.monotonic() + 5
    while not (tmp_path / "run" / "result.json").exists() and time.monotonic() < end:
        time.sleep(0.05)
    told = json.loads((tmp_path / "run" / "result.json").read_text())
    assert told["status"] == "failed", said
