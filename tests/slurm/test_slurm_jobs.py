"""Jobs of three nodes on a real Slurm."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.slurm.cluster import SlurmCluster, require_open_mpi
from tests.slurm.runs import await_updates, log_of, result_of, submitted, training, weights_of

from whorl.envs.mpi_memory import SHM, mpich_form

THREE = ("--nodes", 3, "--cpus-per-node", 2, "--time", 10)


def test_a_job_of_three_nodes_trains_on_ray(slurm: SlurmCluster, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    job = submitted(slurm, *THREE, *training(run_dir, "ray", 1000))
    ended = slurm.wait_for(job)
    assert (ended.state, ended.exit_code) == ("COMPLETED", 0), log_of(run_dir)
    result = result_of(run_dir)
    assert result["engine"] == "ray"
    assert result["weights_sha256"] == weights_of(1000)
    kept = sorted(path.name.rpartition("-")[2] for path in (run_dir / "logs" / "ray").iterdir())
    assert kept == ["0", "1", "2"], log_of(run_dir)
    assert not list((run_dir / "job").glob("*/token")), "the token has outlived its cluster"
    assert stat.S_IMODE((run_dir / "job").stat().st_mode) == 0o700


def test_preempted_and_requeued_it_ends_with_the_weights_of_the_undisturbed_run(
    slurm: SlurmCluster, tmp_path: Path
) -> None:
    """Also where names of MPI's memory lie about, as a start leaves them that was killed while MPI came up."""
    left: list[Path] = []

    def leave_names(job: int) -> None:
        long_ago = time.time() - 10
        for node in range(3):
            left.append(SHM / f"{mpich_form(f'{job}.0')}{node}")
            left[-1].touch()
            os.utime(left[-1], (long_ago, long_ago))

    try:
        preempted_and_requeued(slurm, tmp_path / "run", "mpi", 8000, leave_names)
    finally:
        for path in left:
            path.unlink(missing_ok=True)


@pytest.mark.verify
def test_preempted_on_ray(slurm: SlurmCluster, tmp_path: Path) -> None:
    preempted_and_requeued(slurm, tmp_path / "run", "ray", 12_000)


def preempted_and_requeued(
    slurm: SlurmCluster, run_dir: Path, engine: str, steps: int, meanwhile: Callable[[int], None] = lambda _: None
) -> None:
    job = submitted(slurm, *THREE, "--partition", "low", *training(run_dir, engine, steps))
    await_updates(slurm, run_dir, job, 4)
    meanwhile(job)
    urgent = slurm.run("sbatch", "--parsable", "-p", "high", "-N4", "--exclusive", "-o", "/dev/null", "--wrap", "true")
    slurm.wait_for(urgent)
    ended = slurm.wait_for(job)
    assert (ended.state, ended.exit_code) == ("COMPLETED", 0), log_of(run_dir)
    assert ended.fields["Restarts"] == "1"
    assert "whorl: requeued" in log_of(run_dir)
    assert "did not come up" not in log_of(run_dir)
    result = result_of(run_dir)
    assert result["status"] == "completed"
    assert result["engine"] == engine
    assert result["weights_sha256"] == weights_of(steps)


@pytest.mark.verify
def test_a_learner_with_several_threads_has_cpus_for_them(slurm: SlurmCluster, tmp_path: Path) -> None:
    """On two nodes of 3 CPUs it shares its own with nobody: three actors are on the other."""
    run_dir, prologue = tmp_path / "run", tmp_path / "prologue.sh"
    prologue.write_text(
        f'[ -z "$SLURM_STEP_NUM_TASKS" ] || echo $SLURMD_NODENAME $SLURM_CPUS_ON_NODE > {tmp_path}/rank-$SLURM_PROCID\n'
    )
    words = ("--nodes", 2, "--cpus-per-node", 3, "--prologue", prologue)
    job = submitted(slurm, *words, *training(run_dir, "mpi", 500, "--learner-threads", 3))
    ended = slurm.wait_for(job)
    assert (ended.state, ended.exit_code) == ("COMPLETED", 0), log_of(run_dir)
    learner, *actors = [(tmp_path / f"rank-{rank}").read_text().split() for rank in range(4)]
    assert learner[1] == "3"
    assert [node == learner[0] for node, _ in actors] == [False, False, False]


@pytest.mark.verify
def test_open_mpi_trains_by_pmix(slurm: SlurmCluster, tmp_path: Path) -> None:
    """Where both MPIs are installed, MPICH would be preferred."""
    require_open_mpi()
    if "can not load PMIx library" in (slurm.folder / "log" / "slurmd.n1.log").read_text():
        assert "CI" not in os.environ, "CI runs tools/packages.sh"
        pytest.skip("needs libpmix-dev: tools/packages.sh")
    run_dir, prologue = tmp_path / "run", tmp_path / "prologue.sh"
    prologue.write_text(f'[ -z "$PMIX_RANK" ] || touch {tmp_path}/pmix-$PMIX_RANK\n')
    words = (*THREE, "--interface", "lo", "--prologue", prologue)
    job = submitted(slurm, *words, *training(run_dir, "mpi", 1000, "--set", "engine.mpi=openmpi"))
    ended = slurm.wait_for(job)
    assert (ended.state, ended.exit_code) == ("COMPLETED", 0), log_of(run_dir)
    assert result_of(run_dir)["weights_sha256"] == weights_of(1000)
    assert sorted(path.name for path in tmp_path.glob("pmix-*")) == [f"pmix-{rank}" for rank in range(4)]
