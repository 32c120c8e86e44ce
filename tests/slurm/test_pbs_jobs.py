"""Scripts of ``whorl pbs``, run for real by Debian's qsub, which hands them to Slurm."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from tests.slurm.cluster import SlurmCluster, require, require_open_mpi
from tests.slurm.runs import log_of, result_of, training, weights_of

from whorl.cluster.timing import job_end


def test_a_printed_script_asks_for_what_was_said(slurm: SlurmCluster, tmp_path: Path) -> None:
    words = ("--nodes", 3, "--cpus-per-node", 2, "--gpus-per-node", 1, "--mem", "2G", "--time", "2-00:00:00")
    more = ("--partition", "express", "--account", "lab", "--exclusive")
    done = slurm.whorl("pbs", *words, *more, "--print", *training(tmp_path / "run", "ray", 100))
    assert done.returncode == 0, done.stderr
    asked = [line.removeprefix("#PBS ") for line in done.stdout.splitlines() if line.startswith("#PBS")]
    assert "-l select=3:ncpus=2:ngpus=1:mem=2048mb" in asked
    assert {"-l walltime=48:00:00", "-l place=scatter:excl", "-q express", "-A lab", "-r y"} <= set(asked)
    subprocess.run(["bash", "-n"], input=done.stdout, text=True, check=True)
    done = slurm.whorl("pbs", "--exclusive", "--print", *training(tmp_path / "run", "local", 100))
    assert "\n#PBS -l place=excl\n" in done.stdout
    kinds = ("--head-gpus-per-node", 2, "--worker-nodes", 4, "--worker-cpus-per-node", 8)
    done = slurm.whorl("pbs", *kinds, "--print", *training(tmp_path / "run", "ray", 100))
    assert "#PBS -l select=1:ncpus=1:ngpus=2+4:ncpus=8" in done.stdout


PBSDSH = """#!/bin/bash
# As PBS's: starts the command on each node, in an environment of PBS's own making.
[ "$1" = -- ] && shift
for node in 0 1; do
  env -i HOME="$HOME" PATH=/usr/bin:/bin PBS_JOBID="$PBS_JOBID" PBS_NODENUM="$node" NCPUS=2 "$@" &
done
wait
"""


def test_pbsdsh_starts_nodes_that_know_when_their_job_ends(slurm: SlurmCluster, tmp_path: Path) -> None:
    run_dir, commands, nodefile = tmp_path / "run", tmp_path / "commands", tmp_path / "nodes"
    commands.mkdir()
    for name, text in {"pbsdsh": PBSDSH, "qstat": "#!/bin/sh\nexit 1\n"}.items():
        (commands / name).write_text(text)
        (commands / name).chmod(0o755)
    nodefile.write_text("127.0.0.1\nlocalhost\n")
    prologue = tmp_path / "prologue.sh"
    prologue.write_text(f'[ -z "$PBS_NODENUM" ] || env > {tmp_path}/environ-$PBS_NODENUM\n')
    words = ("--nodes", 2, "--cpus-per-node", 2, "--time", 10, "--prologue", prologue, "--interface", "lo")
    shown = slurm.whorl("pbs", *words, "--print", *training(run_dir, "ray", 500))
    assert shown.returncode == 0, shown.stderr
    script = tmp_path / "job.sh"
    script.write_text(shown.stdout)
    began = time.time()
    environ = {name: text for name, text in os.environ.items() if not name.startswith("SLURM")}
    environ |= {"PATH": f"{commands}:{environ['PATH']}", "PBS_JOBID": "7.server", "PBS_NODEFILE": str(nodefile)}
    done = subprocess.run(["bash", script], env=environ, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr + log_of(run_dir)
    assert result_of(run_dir)["weights_sha256"] == weights_of(500)
    assert sorted(path.name.rpartition("-")[2] for path in (run_dir / "logs" / "ray").iterdir()) == ["0", "1"]
    for node in range(2):
        lines = (tmp_path / f"environ-{node}").read_text().splitlines()
        end = job_end({name: text for name, _, text in (line.partition("=") for line in lines) if "WHORL" in name})
        assert end is not None
        assert began + 599 <= end <= time.time() + 600


def test_mpiexec_is_that_of_the_chosen_mpi(slurm: SlurmCluster, tmp_path: Path) -> None:
    require_open_mpi()
    run_dir, nodefile, script = tmp_path / "run", tmp_path / "nodes", tmp_path / "job.sh"
    nodefile.write_text("localhost\n")
    chosen = ("--set", "engine.mpi=openmpi", "--set", "engine.ulfm=true")
    shown = slurm.whorl(
        "pbs", "--cpus-per-node", 4, "--interface", "lo", "--print", *training(run_dir, "mpi", 200, *chosen)
    )
    assert shown.returncode == 0, shown.stderr
    script.write_text(shown.stdout)
    environ = {name: text for name, text in os.environ.items() if not name.startswith("SLURM")}
    environ |= {"PBS_JOBID": "7.server", "PBS_NODEFILE": str(nodefile), "WHORL_FAULT": "actor:1:env_step=20:kill"}
    done = subprocess.run(["bash", script], env=environ, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr + log_of(run_dir)
    assert result_of(run_dir)["weights_sha256"] == weights_of(200)
    assert "actor-1" in log_of(run_dir), "the others went on without it: the launcher was told --with-ft"


@pytest.mark.verify
@pytest.mark.parametrize("engine", ["ray", "mpi"])
def test_a_script_runs_through_qsub(slurm: SlurmCluster, tmp_path: Path, engine: str) -> None:
    require("qsub")
    run_dir = tmp_path / "run"
    prologue = tmp_path / "prologue.sh"
    prologue.write_text('[ -n "$PBS_NODEFILE" ] || export PBS_NODEFILE=$(generate_pbs_nodefile)\n')
    words = ("--nodes", 3, "--cpus-per-node", 2, "--time", 10, "--prologue", prologue, "--start-within", 60)
    done = slurm.whorl("pbs", *words, "--submit", *training(run_dir, engine, 2000))
    assert done.returncode == 0, done.stderr
    job = done.stdout.split()[1]
    ended = slurm.wait_for(job)
    assert (ended.state, ended.exit_code) == ("COMPLETED", 0), log_of(run_dir)
    assert result_of(run_dir)["weights_sha256"] == weights_of(2000)


@pytest.mark.verify
def test_a_full_queue_is_said_within_the_deadline(slurm: SlurmCluster, tmp_path: Path) -> None:
    require("qsub")
    slurm.run("sbatch", "-p", "high", "-N4", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 600")
    done = slurm.whorl("pbs", "--submit", "--start-within", 3, *training(tmp_path / "run", "local", 100))
    assert done.returncode == 1
    assert "did not start within 3 s (its state is Q) and was taken back" in done.stderr
    assert slurm.job(int(done.stdout.split()[1])).state == "CANCELLED"


def test_what_cannot_be_is_refused_in_one_line(slurm: SlurmCluster, tmp_path: Path) -> None:
    survives = training(tmp_path / "run", "mpi", 100, "--set", "engine.ulfm=true")
    done = slurm.whorl("pbs", "--nodes", 2, "--print", *survives)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "engine.ulfm: the loss of ranks is survived on one node, not on 2; leave it out" in done.stderr
    done = slurm.whorl("pbs", "--nodes", 3, *training(tmp_path / "run", "ray", 100))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "--submit queues a job, --print shows its script" in done.stderr
