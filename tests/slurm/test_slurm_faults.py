"""Time limits, lost nodes, jobs that are started again and again, and warnings that reach only some."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from tests.slurm.cluster import SlurmCluster, processes_of, roles_on
from tests.slurm.runs import await_updates, log_of, result_of, submitted, training, weights_of

from whorl.runs.directory import RunDirectory
from whorl.trainer import stored_config

THREE = ("--nodes", 3, "--cpus-per-node", 2)
LONG = {"ray": 12_000, "mpi": 15_000}
"""Environment steps that take long enough for something to happen meanwhile."""
BEYOND_ITS_TIME = 36_000
"""Of ``SLOWLY``: two minutes, and the job is saved after one and a half, of which a busy machine needs one to begin."""
SLOWLY = ("--set", "env.kwargs.step_time_s=0.02")
SAVED_WITHIN_S = 5.0


def updates_in(run_dir: Path) -> tuple[int, int]:
    """Of the newest line of metrics, and of the newest checkpoint."""
    told = json.loads((run_dir / "metrics.jsonl").read_bytes().splitlines()[-1])["update"]
    saved = max(int(path.name.rpartition("-")[2]) for path in (run_dir / "checkpoints").glob("update-*"))
    return told, saved


def saved_at(run_dir: Path) -> float:
    """When the newest checkpoint was whole, in seconds since 1970: its manifest is what is written last."""
    return max(path.stat().st_mtime for path in (run_dir / "checkpoints").glob("update-*/manifest.json"))


@pytest.mark.verify
def test_before_its_time_is_over_a_job_is_saved_and_comes_back(slurm: SlurmCluster, tmp_path: Path) -> None:
    """Without any warning by Slurm: the run knows when its job ends."""
    run_dir = tmp_path / "run"
    words = training(run_dir, "mpi", BEYOND_ITS_TIME, *SLOWLY)
    shown = slurm.whorl("slurm", *THREE, "--time", 2, "--print", *words)
    lines = [line for line in shown.stdout.splitlines(keepends=True) if "--signal" not in line]
    assert len(lines) == len(shown.stdout.splitlines()) - 1
    (run_dir / "logs").mkdir(parents=True)
    (run_dir / "job").mkdir()
    script = tmp_path / "job.sh"
    script.write_text("".join(lines))
    job = int(slurm.run("sbatch", "--parsable", script))
    slurm.wait_for(job, "RUNNING")
    slurm.wait_for(job, "PENDING")
    told, saved = updates_in(run_dir)
    assert told == saved, "something was learnt after the last save"
    assert result_of(run_dir)["status"] == "preempted"
    slurm.run("scontrol", "update", f"jobid={job}", "TimeLimit=60")
    ended = slurm.wait_for(job)
    assert (ended.state, ended.exit_code) == ("COMPLETED", 0), log_of(run_dir)
    assert result_of(run_dir)["weights_sha256"] == weights_of(BEYOND_ITS_TIME)


@pytest.mark.verify
@pytest.mark.parametrize("engine", ["ray", "mpi"])
def test_a_hard_end_loses_at_most_one_checkpoint_interval(
    slurm: SlurmCluster, tmp_path: Path, figure: Callable[[str, object], None], engine: str
) -> None:
    run_dir = tmp_path / "run"
    often = ("--set", "run.checkpoint_every_s=1")
    job = submitted(slurm, *THREE, "--time", 10, *training(run_dir, engine, LONG[engine], *often))
    await_updates(slurm, run_dir, job, 20)
    slurm.strike()
    slurm.wait_for(job)
    assert not (run_dir / "result.json").exists(), "somebody had time for a last word"
    told, saved = updates_in(run_dir)
    lines = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_bytes().splitlines()]
    lost_s = next(line["wall_s"] for line in lines if line["update"] == told) - next(
        line["wall_s"] for line in lines if line["update"] == saved
    )
    walls = [line["wall_s"] for line in lines[5:]]  # the first updates are slow
    slowest_s = max(after - before for before, after in pairwise(walls))
    figure(f"lost_s_{engine}", round(lost_s, 2))
    assert lost_s < 1 + 2 * slowest_s, f"{told - saved} updates in {lost_s} s were lost; the slowest took {slowest_s} s"
    again = submitted(slurm, *THREE, "--", "resume", run_dir)
    ended = slurm.wait_for(again)
    assert (ended.state, ended.exit_code) == ("COMPLETED", 0), log_of(run_dir)
    assert result_of(run_dir)["weights_sha256"] == weights_of(LONG[engine])


@pytest.mark.verify
def test_on_ray_a_run_goes_on_without_a_lost_node(slurm: SlurmCluster, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    job = submitted(slurm, *THREE, "--time", 10, *training(run_dir, "ray", LONG["ray"]))
    await_updates(slurm, run_dir, job, 5)
    slurm.lose("n3")
    ended = slurm.wait_for(job)
    assert (ended.state, ended.exit_code) == ("COMPLETED", 0), log_of(run_dir)
    assert ended.fields["Restarts"] == "0", "it was not to be started again"
    result = result_of(run_dir)
    assert result["restarts"].get("actor", 0) + result["restarts"].get("learner", 0) > 0
    assert result["weights_sha256"] == weights_of(LONG["ray"])


@pytest.mark.verify
@pytest.mark.parametrize(("engine", "node"), [("mpi", "n2"), ("ray", "n1")])
def test_a_lost_node_that_the_run_needs_has_the_job_requeued_and_resumed(
    slurm: SlurmCluster, tmp_path: Path, engine: str, node: str
) -> None:
    """On MPI any, on Ray the first."""
    run_dir = tmp_path / "run"
    often = ("--set", "run.checkpoint_every_s=1")
    job = submitted(slurm, *THREE, "--time", 10, *training(run_dir, engine, LONG[engine], *often))
    await_updates(slurm, run_dir, job, 20)
    slurm.lose(node)
    slurm.start_node(node)
    slurm.run("scontrol", "update", f"nodename={node}", "state=resume", check=False)
    ended = slurm.wait_for(job)
    assert (ended.state, ended.exit_code) == ("COMPLETED", 0), log_of(run_dir)
    assert int(ended.fields["Restarts"]) >= 1
    assert result_of(run_dir)["weights_sha256"] == weights_of(LONG[engine])


@pytest.mark.verify
def test_a_job_comes_back_though_slurm_has_not_noticed_yet_that_its_node_is_lost(
    slurm: SlurmCluster, tmp_path: Path
) -> None:
    run_dir = tmp_path / "run"
    often = ("--set", "run.checkpoint_every_s=1")
    job = submitted(slurm, *THREE, "--time", 10, *training(run_dir, "mpi", LONG["mpi"], *often))
    await_updates(slurm, run_dir, job, 20)
    slurm.lose("n2", told=False)
    end = time.monotonic() + 100
    while "whorl: requeued" not in log_of(run_dir):
        assert time.monotonic() < end, log_of(run_dir)
        time.sleep(0.2)
    slurm.start_node("n2")  # or Slurm would wait for it until it notices
    ended = slurm.wait_for(job)
    assert (ended.state, ended.exit_code) == ("COMPLETED", 0), log_of(run_dir)
    assert "a node does not answer: the run goes on from its last checkpoint" in log_of(run_dir)
    assert int(ended.fields["Restarts"]) >= 1
    assert result_of(run_dir)["weights_sha256"] == weights_of(LONG["mpi"])


@pytest.mark.verify
def test_after_the_loss_of_a_rank_the_run_goes_on_in_the_same_job(slurm: SlurmCluster, tmp_path: Path) -> None:
    """MPI is not blamed for it."""
    run_dir = tmp_path / "run"
    job = submitted(slurm, *THREE, "--time", 10, *training(run_dir, "mpi", LONG["mpi"]))
    await_updates(slurm, run_dir, job, 5)
    ranks = [pid for pid in processes_of("n3") if b"PMI_RANK=3\0" in Path(f"/proc/{pid}/environ").read_bytes()]
    os.kill(min(ranks), signal.SIGKILL)
    ended = slurm.wait_for(job)
    assert (ended.state, ended.fields["Restarts"]) == ("COMPLETED", "0"), log_of(run_dir)
    assert log_of(run_dir).count("a rank was lost: the run goes on from its last checkpoint") == 1
    assert "did not come up" not in log_of(run_dir)
    assert result_of(run_dir)["weights_sha256"] == weights_of(LONG["mpi"])


@pytest.mark.verify
@pytest.mark.parametrize("engine", ["ray", "mpi"])
def test_a_warning_to_every_process_of_the_steps_saves_the_run(
    slurm: SlurmCluster, tmp_path: Path, engine: str
) -> None:
    """As ``--signal=USR2@60`` sends it; the batch process does not hear of it."""
    run_dir = tmp_path / "run"
    job = submitted(slurm, *THREE, "--time", 10, "--no-requeue", *training(run_dir, engine, LONG[engine]))
    await_updates(slurm, run_dir, job, 5)
    slurm.run("scancel", "--signal=USR2", job)
    ended = slurm.wait_for(job)
    assert (ended.state, ended.exit_code) == ("FAILED", 75), log_of(run_dir)
    told, saved = updates_in(run_dir)
    assert told == saved
    assert result_of(run_dir)["status"] == "preempted"


@pytest.mark.verify
def test_a_job_whose_time_is_over_before_the_run_begins_comes_back(slurm: SlurmCluster, tmp_path: Path) -> None:
    """Without a warning by Slurm. The first start is held up; the second is not."""
    run_dir = tmp_path / "run"
    prologue = tmp_path / "prologue.sh"
    prologue.write_text('if [ -n "$SLURM_STEP_ID" ] && [ -z "$SLURM_RESTART_COUNT" ]; then sleep 600; fi\n')
    words = ("--time", 1, "--prologue", prologue, "--print", *training(run_dir, "local", 1000))
    shown = slurm.whorl("slurm", *words).stdout.splitlines(keepends=True)
    (run_dir / "logs").mkdir(parents=True)
    script = tmp_path / "job.sh"
    script.write_text("".join(line for line in shown if "--signal" not in line))
    job = int(slurm.run("sbatch", "--parsable", script))
    slurm.wait_for(job, "RUNNING")
    slurm.wait_for(job, "PENDING")
    slurm.run("scontrol", "update", f"jobid={job}", "TimeLimit=60")
    ended = slurm.wait_for(job)
    assert (ended.state, ended.exit_code) == ("COMPLETED", 0), log_of(run_dir)
    assert result_of(run_dir)["weights_sha256"] == weights_of(1000)


@pytest.mark.verify
def test_a_job_that_never_gets_anywhere_is_not_started_for_ever(slurm: SlurmCluster, tmp_path: Path) -> None:
    """Each start is requeued by its own node, before the training has begun."""
    run_dir = tmp_path / "run"
    prologue = tmp_path / "prologue.sh"
    prologue.write_text('if [ -n "$SLURM_STEP_ID" ]; then scontrol requeue $SLURM_JOB_ID; sleep 600; fi\n')
    job = submitted(slurm, "--restarts", 1, "--prologue", prologue, *training(run_dir, "local", 1000))
    ended = slurm.wait_for(job)
    assert (ended.state, ended.exit_code) == ("FAILED", 1)
    assert "was started 3 times without coming to a first checkpoint" in log_of(run_dir)


@pytest.mark.verify
@pytest.mark.parametrize("engine", ["ray", "mpi"])
def test_a_warning_to_the_batch_process_alone_is_passed_on(
    slurm: SlurmCluster, tmp_path: Path, engine: str, figure: Callable[[str, object], None]
) -> None:
    run_dir = tmp_path / "run"
    job = submitted(slurm, *THREE, "--time", 10, "--no-requeue", *training(run_dir, engine, LONG[engine]))
    await_updates(slurm, run_dir, job, 5)
    warned_at = time.time()
    slurm.run("scancel", "--batch", "--signal=USR1", job)
    ended = slurm.wait_for(job)
    assert (ended.state, ended.exit_code) == ("FAILED", 75), log_of(run_dir)
    told, saved = updates_in(run_dir)
    assert told == saved
    assert "warned: the run is saved and stops" in log_of(run_dir)
    figure(f"saved_after_s_{engine}", round(saved_at(run_dir) - warned_at, 2))
    assert saved_at(run_dir) - warned_at < SAVED_WITHIN_S


@pytest.mark.verify
def test_a_cancelled_job_does_not_come_back(slurm: SlurmCluster, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    job = submitted(slurm, *THREE, "--time", 10, *training(run_dir, "mpi", LONG["mpi"]))
    await_updates(slurm, run_dir, job, 5)
    slurm.run("scancel", job)
    ended = slurm.wait_for(job)
    assert ended.state == "CANCELLED"
    time.sleep(2)
    assert slurm.job(job).state == "CANCELLED"
    assert "whorl: requeued" not in log_of(run_dir)


@pytest.mark.verify
@pytest.mark.parametrize("engines", [("ray", "ray"), ("mpi", "mpi"), ("ray", "mpi")], ids="-".join)
def test_two_jobs_on_the_same_nodes_do_not_meet(slurm: SlurmCluster, tmp_path: Path, engines: tuple[str, str]) -> None:
    """Each takes half of each of the four nodes."""
    four = ("--nodes", 4, "--cpus-per-node", 2, "--time", 20)
    runs = [tmp_path / "one", tmp_path / "two"]
    jobs = [
        submitted(slurm, *four, *training(run_dir, engine, 20_000))
        for run_dir, engine in zip(runs, engines, strict=True)
    ]
    for run_dir, job in zip(runs, jobs, strict=True):
        await_updates(slurm, run_dir, job, 3)
    for run_dir, job in zip(runs, jobs, strict=True):
        assert slurm.job(job).state == "RUNNING", f"not both at once\n{log_of(run_dir)}"
    for run_dir, job in zip(runs, jobs, strict=True):
        ended = slurm.wait_for(job)
        assert (ended.state, ended.exit_code) == ("COMPLETED", 0), log_of(run_dir)
        assert result_of(run_dir)["weights_sha256"] == weights_of(20_000)
        assert set(result_of(run_dir)["restarts"].values()) <= {0}


@pytest.mark.verify
def test_nodes_join_a_run_and_leave_it(slurm: SlurmCluster, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    words = ("--", "train", "impala", "CartPole-v1", "--workflow", "async", "--engine", "ray", "--run-dir", run_dir)
    sizes = ("--actors", 4, "--actors-schedule", "0:1", "--envs-per-actor", 2, "--steps", 300_000)
    job = submitted(slurm, "--nodes", 1, "--cpus-per-node", 2, "--time", 20, "--no-requeue", *words, *sizes)
    await_updates(slurm, run_dir, job, 5)
    done = slurm.whorl("slurm", "join", run_dir, "--nodes", 1, "--cpus-per-node", 4, "--submit", "--start-within", 60)
    assert done.returncode == 0, done.stderr
    guest = int(done.stdout.split()[1])
    end = time.monotonic() + 100
    while "has joined" not in log_of(run_dir):
        assert time.monotonic() < end, log_of(run_dir)
        time.sleep(0.2)
    assert slurm.whorl("resize", run_dir, 4).returncode == 0
    await_updates(slurm, run_dir, job, 50)
    end = time.monotonic() + 60
    while not (on_guest := roles_on(slurm.job(guest).fields["NodeList"])):
        assert time.monotonic() < end, "no actor came to the node that has joined"
        time.sleep(0.2)
    assert all(role.startswith("actor-") for role in on_guest)
    slurm.run("scancel", guest)
    slurm.wait_for(guest)
    assert slurm.whorl("resize", run_dir, 1).returncode == 0
    lines = len((run_dir / "metrics.jsonl").read_bytes().splitlines())
    await_updates(slurm, run_dir, job, lines + 10)
    slurm.run("scancel", "--batch", "--signal=USR1", job)
    assert slurm.wait_for(job).exit_code == 75, log_of(run_dir)
    result = result_of(run_dir)
    counts = result["transitions"]
    assert result["status"] == "preempted"
    assert counts["collected"] == sum(counts[name] for name in ("used", "dropped", "lost", "in_flight"))
    rows, slots = stored_config(RunDirectory.open(run_dir)).agent.rows, 5
    most = 4 * (slots + 1) * rows * 2
    """Of four actors, what lies in slots (a batch is four of one actor, and one more) and what is being collected."""
    assert 0 <= counts["in_flight"] <= most
    assert 0 <= counts["lost"] <= most


@pytest.mark.verify
def test_learners_and_actors_on_nodes_of_different_kinds(slurm: SlurmCluster, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    kinds = ("--head-gpus-per-node", 1, "--head-cpus-per-node", 2, "--worker-nodes", 2, "--worker-cpus-per-node", 4)
    job = submitted(slurm, *kinds, "--time", 10, *training(run_dir, "ray", LONG["ray"]))
    await_updates(slurm, run_dir, job, 5)
    first = slurm.job(job).fields["NodeList"]
    assert roles_on(first) == {"learner-0"}
    others = [roles_on(node) for node in slurm.nodes if node != first]
    assert set().union(*others) == {"actor-0", "actor-1", "actor-2"}
    asked = tomllib.loads((run_dir / "config.toml").read_text())["engine"]
    assert (asked["learner_resources"], asked["actor_resources"]) == ({"head": 1}, {"worker": 1})
    ended = slurm.wait_for(job)
    assert (ended.state, ended.exit_code) == ("COMPLETED", 0), log_of(run_dir)
    assert result_of(run_dir)["weights_sha256"] == weights_of(LONG["ray"])


@pytest.mark.verify
@pytest.mark.parametrize(("heads", "restarts"), [(1, "1"), (2, "0")])
def test_a_run_on_nodes_of_two_kinds_survives_a_lost_one(
    slurm: SlurmCluster, tmp_path: Path, heads: int, restarts: str
) -> None:
    """Where a single node is for learners, Slurm requeues the job, told or not that it is not to."""
    run_dir = tmp_path / "run"
    kinds = ("--head-nodes", heads, "--worker-nodes", 2, "--worker-cpus-per-node", 3)
    job = submitted(slurm, *kinds, "--time", 10, *training(run_dir, "ray", LONG["ray"]))
    await_updates(slurm, run_dir, job, 5)
    slurm.lose(f"n{heads + 2}")
    ended = slurm.wait_for(job)
    assert (ended.state, ended.exit_code) == ("COMPLETED", 0), log_of(run_dir)
    assert ended.fields["Restarts"] == restarts
    result = result_of(run_dir)
    assert (result["restarts"].get("actor", 0) > 0) == (restarts == "0")
    assert result["weights_sha256"] == weights_of(LONG["ray"])


@pytest.mark.verify
@pytest.mark.parametrize("engine", ["ray", "mpi"])
def test_cartpole_is_learnt_on_three_nodes(slurm: SlurmCluster, tmp_path: Path, engine: str) -> None:
    run_dir = tmp_path / "run"
    words = ("train", "ppo", "CartPole-v1", "--engine", engine, "--actors", 4, "--envs-per-actor", 2)
    stop = ("--stop-return", 475, "--steps", 300_000, "--run-dir", run_dir)
    job = submitted(slurm, *THREE, "--time", 60, "--", *words, *stop)
    ended = slurm.wait_for(job)
    assert (ended.state, ended.exit_code) == ("COMPLETED", 0), log_of(run_dir)
    assert result_of(run_dir)["return_mean"] >= 475


@pytest.mark.verify
@pytest.mark.parametrize("engine", ["ray", "mpi"])
def test_inside_an_allocation_it_runs_at_once_on_all_that_is_there(
    slurm: SlurmCluster, tmp_path: Path, engine: str
) -> None:
    run_dir = tmp_path / "run"
    words = [sys.executable, "-m", "whorl", "slurm", *map(str, training(run_dir, engine, 2000))]
    done = subprocess.run(
        ["salloc", "--nodes=3", "--ntasks-per-node=1", "--cpus-per-task=2", *words],
        env=slurm.environ,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert result_of(run_dir)["weights_sha256"] == weights_of(2000)


@pytest.mark.verify
def test_a_warning_that_reaches_one_rank_only_saves_the_run(
    slurm: SlurmCluster, tmp_path: Path, figure: Callable[[str, object], None]
) -> None:
    run_dir = tmp_path / "run"
    job = submitted(slurm, *THREE, "--time", 10, "--no-requeue", *training(run_dir, "mpi", LONG["mpi"]))
    await_updates(slurm, run_dir, job, 5)
    ranks = [pid for pid in processes_of("n3") if b"PMI_RANK=3\0" in Path(f"/proc/{pid}/environ").read_bytes()]
    warned_at = time.time()
    os.kill(min(ranks), signal.SIGTERM)
    ended = slurm.wait_for(job)
    assert (ended.state, ended.exit_code) == ("FAILED", 75), log_of(run_dir)
    told, saved = updates_in(run_dir)
    assert told == saved
    figure("saved_after_s_one_rank", round(saved_at(run_dir) - warned_at, 2))
    assert saved_at(run_dir) - warned_at < SAVED_WITHIN_S
