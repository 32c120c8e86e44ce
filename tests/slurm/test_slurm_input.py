"""What cannot be is refused in one line, before a job is queued, or by the job within its deadline."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import pytest
from tests.slurm.cluster import Job, SlurmCluster
from tests.slurm.runs import log_of, submitted, training

from whorl.cluster.slurm import QUEUE
from whorl.envs.mpi_memory import SHM, mpich_form
from whorl.errors import WhorlError

REFUSED_WITHIN_S = 30.0
"""On a machine that is busy: what is refused waits for nothing."""
TRAIN = ("--", "train", "ppo", "CartPole-v1")


def lasted_s(job: Job) -> float:
    """From the start of a job to its end, as Slurm saw it."""
    start, end = (datetime.fromisoformat(job.fields[name]) for name in ("StartTime", "EndTime"))
    return (end - start).total_seconds()


def refused(slurm: SlurmCluster, *words: object) -> str:
    done = slurm.whorl("slurm", *words)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--submit",), "what is to run in the job? Put it behind --"),
        (("--submit", "--", "trian", "ppo"), "what is to run in the job?"),
        (("--submit", "--nodes", 3, *TRAIN), "3 nodes and no engine: say --engine ray or --engine mpi"),
        (
            ("--submit", "--head-gpus-per-node", 1, "--worker-nodes", 2, *TRAIN, "--engine", "mpi"),
            "--head-... and --worker-... need --engine ray",
        ),
        (
            ("--submit", *TRAIN, "--engine", "mpi", "--set", "engine.ulfm=true"),
            "engine.ulfm does not work under srun",
        ),
        (("--submit", "--nodes", 0, *TRAIN), "--nodes: expected"),
        (("--submit", "--time", "soon", *TRAIN), "--time: expected a time as 90 (minutes)"),
        (("--submit", "--start-within", "soon", *TRAIN), "--start-within: expected an integer"),
        (("--submit", "--mem", "lots", *TRAIN), "--mem: expected megabytes"),
        (("--submit", "--nods", 3, *TRAIN), "did you mean --nodes?"),
        (("--submit", "--prologue", "/nowhere", *TRAIN), "--prologue: /nowhere: No such file"),
        (("--submit", "--", "train", "ppo", "CartPole-v1", "--actrs", 2), "did you mean --actors?"),
        (("--submit", "--", "train", "ppoo", "CartPole-v1"), "there is no agent 'ppoo'"),
        (("--submit", "--", "resume", "/nowhere"), "/nowhere: no such run directory"),
        (("--nodes", 1, *TRAIN), "not inside an allocation of Slurm"),
        (("join", "/nowhere", "--submit"), "/nowhere: no such run directory"),
    ],
)
def test_bad_words_are_refused_in_one_line(slurm: SlurmCluster, words: tuple[object, ...], said: str) -> None:
    assert said in refused(slurm, *words)


def test_what_slurm_refuses_is_told_in_its_own_words_and_leaves_nothing(slurm: SlurmCluster, tmp_path: Path) -> None:
    ray = training(tmp_path / "run", "ray", 100)
    assert "sbatch refused the job: " in refused(slurm, "--submit", "--nodes", 3, "--gpus-per-node", 9, *ray)
    assert "invalid partition" in refused(slurm, "--submit", "--nodes", 3, "--partition", "nowhere", *ray)
    assert not (tmp_path / "run").exists()


def test_printed_scripts_are_read_by_bash_and_by_slurm(slurm: SlurmCluster, tmp_path: Path) -> None:
    prologue = tmp_path / "prologue.sh"
    prologue.write_text("module() { :; }\nmodule load cuda  # it's quoted \"badly\"\nexport GREETING='a b'\n")
    odd = tmp_path / "a run's $dir"
    for name, more in {
        "plain": ("--nodes", 3, "--cpus-per-node", 2, "--time", "1-12:00:00", "--account", "nobody", "--exclusive"),
        "gpus": ("--nodes", 2, "--gpus-per-node", 2, "--mem", "1G", "--prologue", prologue),
        "kinds": ("--head-gpus-per-node", 1, "--worker-nodes", 2, "--worker-cpus-per-node", 4),
    }.items():
        done = slurm.whorl("slurm", *more, "--print", *training(odd, "ray", 100))
        assert done.returncode == 0, done.stderr
        script = tmp_path / f"{name}.sh"
        script.write_text(done.stdout)
        slurm.run("bash", "-n", script)
        slurm.run("sbatch", "--test-only", script)
        start = done.stdout.index("<<'END-OF-WHORL-NODE-SCRIPT'")
        node = done.stdout[start:].partition("\n")[2].partition("END-OF-WHORL-NODE-SCRIPT\n")[0]
        subprocess.run(["bash", "-n"], input=node, text=True, check=True)
    assert not odd.exists(), "printing makes nothing"


def test_a_job_has_the_exit_code_of_its_training(slurm: SlurmCluster, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    prologue = tmp_path / "prologue.sh"
    prologue.write_text("export WHORL_FAULT='learner:0:update=nonsense:kill'\n")
    job = submitted(slurm, "--prologue", prologue, *training(run_dir, "local", 500))
    ended = slurm.wait_for(job)
    assert (ended.state, ended.exit_code) == ("FAILED", 2), log_of(run_dir)
    assert "whorl: error: WHORL_FAULT" in log_of(run_dir)


def test_a_run_that_was_begun_on_nodes_of_one_kind_goes_on_so(slurm: SlurmCluster, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    assert slurm.whorl(*training(run_dir, "inline", 200)[1:]).returncode == 0
    kinds = ("--submit", "--head-gpus-per-node", 1, "--worker-nodes", 2, "--worker-gpus-per-node", 0)
    said = refused(slurm, *kinds, "--", "resume", run_dir, "--engine", "ray")
    assert "was begun on nodes of one kind, and goes on so: leave out --head-... and --worker-..." in said


def test_names_of_run_directories_are_taken_as_they_are(slurm: SlurmCluster, tmp_path: Path) -> None:
    run_dir = tmp_path / 'it\'s 100% "odd" #1 $HOME %j;'
    job = submitted(slurm, *training(run_dir, "local", 200))
    ended = slurm.wait_for(job)
    assert (ended.state, ended.exit_code) == ("COMPLETED", 0), log_of(run_dir)
    assert "whorl" in (run_dir / "logs" / f"job-{job}.log").read_text()
    said = refused(slurm, "--submit", *training(tmp_path / "back\\slash", "local", 200))
    assert "--run-dir: Slurm cannot write a log to a path with a backslash" in said


def test_cpus_and_memory_are_those_of_the_job_and_not_of_the_machine(slurm: SlurmCluster, tmp_path: Path) -> None:
    """Three actors and a learner need four CPUs: a quarter of a node has too few, a whole one has them."""
    few, whole = tmp_path / "few", tmp_path / "whole"
    asked = ("--nodes", 1, "--cpus-per-node", 1, "--mem", "1G")
    ended = slurm.wait_for(submitted(slurm, *asked, *training(few, "ray", 200)))
    assert (ended.state, ended.exit_code) == ("FAILED", 2), log_of(few)
    assert re.search(r"asks for 4 CPU and the Ray cluster at \S+ has 1: ", log_of(few))
    (log,) = (few / "logs" / "ray").glob("*/raylet.out")
    told = f"memory: [{768 * 2**20 * 10_000}]"  # as Ray counts; the other quarter is for the object store
    assert told in log.read_text()
    ended = slurm.wait_for(submitted(slurm, "--exclusive", *training(whole, "ray", 200)))
    assert (ended.state, ended.exit_code) == ("COMPLETED", 0), log_of(whole)


def test_a_squeue_that_does_not_answer_is_one_line(
    slurm: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    squeue = tmp_path / "squeue"
    squeue.write_text("#!/bin/sh\nexec sleep 60\n")
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr("whorl.cluster.starting._ANSWER_S", 0.5)
    with pytest.raises(WhorlError, match="squeue does not answer: whether job 7 has started is not known"):
        QUEUE.await_start("7", 10)


def test_a_second_job_on_the_same_run_directory_is_refused_and_harms_nothing(
    slurm: SlurmCluster, tmp_path: Path
) -> None:
    """While the first one's nodes come up."""
    run_dir, go_on = tmp_path / "run", tmp_path / "go-on"
    prologue = tmp_path / "prologue.sh"
    prologue.write_text(f'if [ -n "$SLURM_STEP_ID" ]; then until [ -e {go_on} ]; do sleep 0.1; done; fi\n')
    words = ("--nodes", 2, "--cpus-per-node", 2, "--prologue", prologue)
    job = submitted(slurm, *words, *training(run_dir, "ray", 500))
    end = time.monotonic() + 60
    while not (run_dir / "job" / "current").exists():
        assert time.monotonic() < end, log_of(run_dir)
        time.sleep(0.1)
    second = int(slurm.run("sbatch", "--parsable", run_dir / "job" / "job.sh"))
    refused = slurm.wait_for(second)
    assert (refused.state, refused.exit_code) == ("FAILED", 2), log_of(run_dir)
    assert f"{run_dir}: job {job} starts or runs here (pid " in log_of(run_dir)
    go_on.touch()
    ended = slurm.wait_for(job)
    assert (ended.state, ended.exit_code) == ("COMPLETED", 0), log_of(run_dir)


CONTAINER = """#!/bin/bash
# As a container: `apptainer exec IMAGE COMMAND` runs it where other programs are found, and apptainer itself is not.
shift 2
if [ "$INSIDE" = "in-$SLURM_STEP_ID" ]; then echo "apptainer is not here" >&2; exit 127; fi
INSIDE="in-$SLURM_STEP_ID" PATH="$IMAGE_PATH" exec "$@"
"""


@pytest.mark.parametrize("has_slurm", [True, False])
def test_python_may_be_in_a_container_which_needs_slurms_commands(
    slurm: SlurmCluster, tmp_path: Path, has_slurm: bool
) -> None:
    run_dir, container, image = tmp_path / "run", tmp_path / "apptainer", tmp_path / "image"
    container.write_text(CONTAINER)
    container.chmod(0o755)
    image.mkdir()
    for name in ("bash", "env", *(("srun", "scontrol", "squeue", "sinfo") if has_slurm else ())):
        (image / name).symlink_to(shutil.which(name) or name)
    prologue = tmp_path / "prologue.sh"
    prologue.write_text(f"export IMAGE_PATH={image}\n")
    words = ("--nodes", 2, "--cpus-per-node", 2, "--prologue", prologue)
    python = ("--python", f"{container} exec lab.sif {sys.executable}")
    job = submitted(slurm, *words, *python, *training(run_dir, "mpi", 500))
    ended = slurm.wait_for(job)
    if has_slurm:
        assert (ended.state, ended.exit_code) == ("COMPLETED", 0), log_of(run_dir)
        return
    assert (ended.state, ended.exit_code) == ("FAILED", 2), log_of(run_dir)
    said = log_of(run_dir).splitlines()
    assert len(said) == 1, said
    assert "srun cannot be run by the batch process (No such file or directory): where --python" in said[0]


@pytest.mark.parametrize("engine", ["ray", "mpi"])
def test_an_interface_that_only_another_node_lacks(slurm: SlurmCluster, tmp_path: Path, engine: str) -> None:
    run_dir = tmp_path / "run"
    prologue = tmp_path / "prologue.sh"
    prologue.write_text(
        'if [ "$SLURM_PROCID" = 1 ] && [ -n "$SLURM_STEP_NUM_TASKS" ]; then\n'
        '  words=(); for word; do [ "$word" != lo ] || word=ipogif0; words+=("$word"); done; set -- "${words[@]}"\nfi\n'
    )
    words = ("--nodes", 2, "--cpus-per-node", 2, "--interface", "lo", "--prologue", prologue)
    job = submitted(slurm, *words, *training(run_dir, engine, 100))
    ended = slurm.wait_for(job)
    assert (ended.state, ended.exit_code) == ("FAILED", 2), log_of(run_dir)
    lines = [line for line in log_of(run_dir).splitlines() if "whorl: error: " in line]
    assert len(lines) == 1, lines
    assert "--interface ipogif0" in lines[0]
    for node in range(2):  # the other ranks were killed while MPI came up, and left names of memory
        (SHM / f"{mpich_form(f'{job}.0')}{node}").unlink(missing_ok=True)


@pytest.mark.parametrize("engine", ["ray", "mpi"])
def test_an_interface_that_is_not_there_is_named_with_those_that_are(
    slurm: SlurmCluster, tmp_path: Path, engine: str
) -> None:
    run_dir = tmp_path / "run"
    words = ("--nodes", 2, "--cpus-per-node", 2, "--interface", "ipogif0")
    job = submitted(slurm, *words, *training(run_dir, engine, 100))
    ended = slurm.wait_for(job)
    assert (ended.state, ended.exit_code) == ("FAILED", 2), log_of(run_dir)
    assert lasted_s(ended) < REFUSED_WITHIN_S
    lines = [line for line in log_of(run_dir).splitlines() if "error" in line]
    assert len(lines) == 1
    assert "--interface ipogif0" in lines[0]
    assert "there are lo" in lines[0]


@pytest.mark.verify
def test_a_full_partition_is_said_within_the_deadline(slurm: SlurmCluster, tmp_path: Path) -> None:
    slurm.run("sbatch", "-p", "high", "-N4", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 600")
    began = time.monotonic()
    done = slurm.whorl("slurm", "--submit", "--start-within", 3, *training(tmp_path / "run", "local", 100))
    assert time.monotonic() - began < 3 + REFUSED_WITHIN_S
    assert done.returncode == 1
    assert "did not start within 3 s (" in done.stderr
    assert done.stderr.count("\n") == 1
    assert slurm.job(int(done.stdout.split()[1])).state == "CANCELLED"


@pytest.mark.verify
def test_a_head_that_cannot_be_reached_is_said_within_the_deadline(slurm: SlurmCluster, tmp_path: Path) -> None:
    """The prologue, which nodes run first, has the second node look for the head where nobody is."""
    run_dir = tmp_path / "run"
    prologue = tmp_path / "prologue.sh"
    prologue.write_text(
        'if [ "$SLURM_PROCID" = 1 ] && [ -n "$SLURM_STEP_NUM_TASKS" ]; then\n'
        f"  until ls {run_dir}/job/*/address >/dev/null 2>&1; do sleep 0.1; done\n"
        f"  for file in {run_dir}/job/*/address; do printf 127.0.0.1:1 > $file; done\nfi\n"
    )
    words = ("--nodes", 2, "--join-timeout", 60, "--prologue", prologue)
    job = submitted(slurm, *words, *training(run_dir, "ray", 100))
    ended = slurm.wait_for(job)
    assert (ended.state, ended.exit_code) == ("FAILED", 1), log_of(run_dir)
    assert lasted_s(ended) < 60, "it gave up before --join-timeout: the head listens, and would have answered"
    lines = [line for line in log_of(run_dir).splitlines() if "whorl: error: " in line]
    assert len(lines) == 1, lines
    assert "node 1 could not join: the head at 127.0.0.1:1 cannot be reached" in lines[0]


@pytest.mark.verify
def test_more_ranks_than_the_job_has_cpus(slurm: SlurmCluster, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    job = submitted(slurm, "--nodes", 2, "--cpus-per-node", 1, *training(run_dir, "mpi", 100))
    ended = slurm.wait_for(job)
    assert (ended.state, ended.exit_code) == ("FAILED", 2)
    assert "the plan needs 4 ranks and the job has 2 CPUs" in log_of(run_dir)


@pytest.mark.verify
def test_more_gpus_than_the_job_has(slurm: SlurmCluster, tmp_path: Path) -> None:
    """The machine has none, each node of the cluster two, and the job was given one of each: that is what counts."""
    run_dir = tmp_path / "run"
    words = ("--nodes", 2, "--cpus-per-node", 2, "--gpus-per-node", 1)
    job = submitted(slurm, *words, *training(run_dir, "ray", 100, "--gpus-per-actor", 1))
    ended = slurm.wait_for(job)
    assert (ended.state, ended.exit_code) == ("FAILED", 2), log_of(run_dir)
    errors = [line for line in log_of(run_dir).splitlines() if "whorl: error: " in line]
    assert len(errors) == 1
    assert re.search(r"this run asks for 3 GPU and the Ray cluster at \S+ has 2: use less GPU$", errors[0])
