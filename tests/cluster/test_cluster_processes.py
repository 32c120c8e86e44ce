"""What a batch job's processes make of others that fail, or are ended: small shell scripts stand in for these."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from whorl.cli.main import main
from whorl.cluster.allocation import ASKED_GPUS, ASKED_MEMORY, Allocation, own_share
from whorl.cluster.job import BatchJob
from whorl.cluster.meeting import Meeting, claim
from whorl.cluster.node import Node, NodeOrder
from whorl.cluster.orders import ALONE, MPI, JobOrder
from whorl.cluster.pbs import QUEUE as PBS_QUEUE
from whorl.cluster.request import Part, Request
from whorl.cluster.restarts import is_one_silent
from whorl.cluster.script import node_script
from whorl.cluster.slurm import QUEUE
from whorl.engines.local.nursery import STOP_SIGNALS
from whorl.errors import WhorlError
from whorl.runs.result import Result

ASKED = "asked"
"""A file in which each call of a stand-in leaves a line."""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Puts a shell script in a command's place."""
    folder = tmp_path / "commands"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)

    def write(name: str, text: str) -> Path:
        path = folder / name
        path.write_text(f"#!/bin/sh\necho once >> {tmp_path / ASKED}\n{text}\n")
        path.chmod(0o755)
        return path

    return write


@pytest.fixture
def order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NodeOrder]:
    """For the first node of a job. Handlers of signals are afterwards as they were."""
    for name in ("SLURM_JOB_ID", "PBS_JOBID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SLURM_PROCID", "0")
    Meeting(tmp_path, "7-abc").open()
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    yield NodeOrder(tmp_path, "7-abc", 1, "", "", 30.0, 0, guest=False, words=["train"])
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("training", "code"),
    [
        ("kill -TERM $$", 75),  # it is told before this process is
        ("trap '' TERM; kill -TERM $PPID; sleep 0.5; kill -KILL $$", 75),  # this process is told, and passes it on
        ("kill -KILL $$", 1),
        ("exit 3", 3),
    ],
)
def test_a_training_that_dies_of_a_warning_while_it_starts_is_preempted(
    order: NodeOrder, stand_in: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch, training: str, code: int
) -> None:
    monkeypatch.setattr(Node, "_start_ray", lambda _self, _ip, _join: "127.0.0.1:1")
    monkeypatch.setattr(sys, "executable", str(stand_in("training", training)))
    assert Node(order).run() == code
    assert Meeting(order.run_dir, order.key).exit_code() == code


@pytest.mark.parametrize(
    ("step", "code"),
    [
        ("kill -TERM $$", 75),
        ("exit 143", 75),
        ("kill -USR2 $$", 75),
        ("exit 138", 75),
        ("kill -KILL $$", 1),
        ("exit 1", 1),
    ],
)
def test_a_step_that_a_warning_ends_before_the_training_listens_is_preempted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, code: int
) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    (tmp_path / "nodes").write_text("a\n")
    monkeypatch.setenv("PBS_JOBID", "7.server")
    monkeypatch.setenv("PBS_NODEFILE", str(tmp_path / "nodes"))
    job = BatchJob(JobOrder("pbs", tmp_path / "run", "1", ALONE, tmp_path / "node.sh", words=("train",)))
    monkeypatch.setattr(job, "_launch", lambda _meeting, _words: ["sh", "-c", step])
    assert job._host() == code


@pytest.fixture
def pbs_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchJob]:
    """Whose launcher is to be told what it is. Handlers of signals are afterwards as they were."""
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    (tmp_path / "nodes").write_text("a\n")
    monkeypatch.setenv("PBS_JOBID", "7.server")
    monkeypatch.setenv("PBS_NODEFILE", str(tmp_path / "nodes"))
    order = JobOrder("pbs", tmp_path / "run", "1", MPI, tmp_path / "node.sh", words=("train",))
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    yield BatchJob(order)
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_step_that_does_not_end_after_its_training_is_ended(
    pbs_job: BatchJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whorl.cluster.job._LINGERS_S", 0.3)
    monkeypatch.setattr("whorl.cluster.job._ENDS_S", 0.3)
    meeting = Meeting(tmp_path / "run", "7-abc")
    meeting.open()
    meeting.say_exit(1)
    told = tmp_path / "told"
    began = time.monotonic()
    assert pbs_job._attend(["bash", "-c", f"trap 'touch {told}' TERM; while :; do sleep 0.1; done"], meeting) == 1
    assert told.exists()
    assert time.monotonic() - began < 5


def test_ranks_are_started_again_where_no_mpi_has_begun(pbs_job: BatchJob, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Meeting] = []

    def launch(meeting: Meeting, _words: list[str]) -> list[str]:
        tried.append(meeting)
        return ["sh", "-c", "exit 139"]

    monkeypatch.setattr(pbs_job, "_launch", launch)
    assert pbs_job.run() == 1
    assert len(tried) == 5


@pytest.mark.parametrize("driver", ["dies too", "tells"])
def test_a_run_goes_on_after_lost_ranks_so_often_without_progress(
    pbs_job: BatchJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], driver: str
) -> None:
    """MPI is not blamed for it."""
    tried: list[Meeting] = []

    def launch(meeting: Meeting, _words: list[str]) -> list[str]:
        tried.append(meeting)
        if driver == "tells":
            meeting.say_exit(1)
            failed(lost_role=True).write(tmp_path / "run" / "result.json")
        return ["sh", "-c", f"touch {meeting.mpi_mark}; exit 137"]

    monkeypatch.setattr(pbs_job, "_launch", launch)
    with pytest.raises(WhorlError, match="was started 5 times without coming to a first checkpoint"):
        pbs_job.run()
    assert len(tried) == 4
    said = capfd.readouterr()
    assert said.out.count("a rank was lost: the run goes on from its last checkpoint") == 4
    assert "did not come up" not in said.err


def test_another_failure_of_ranks_ends_the_job(
    pbs_job: BatchJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[Meeting] = []

    def launch(meeting: Meeting, _words: list[str]) -> list[str]:
        tried.append(meeting)
        meeting.say_exit(1)
        failed(lost_role=False).write(tmp_path / "run" / "result.json")
        return ["sh", "-c", f"touch {meeting.mpi_mark}; exit 1"]

    monkeypatch.setattr(pbs_job, "_launch", launch)
    assert pbs_job.run() == 1
    assert len(tried) == 1


def failed(*, lost_role: bool) -> Result:
    """As a training leaves it."""
    numbers = {"env_steps": 0, "updates": 0, "episodes": 0, "return_mean": None, "wall_s": 1.0, "env_steps_per_s": None}
    return Result("failed", "ppo", "E", "sync", "mpi", **numbers, weights_sha256="", exact=True, lost_role=lost_role)


@pytest.mark.parametrize(("here", "everywhere", "silent"), [(0, 0, False), (0, 1, True), (1, 1, False)])
def test_a_node_on_which_nothing_starts_is_lost(
    stand_in: Callable[[str, str], Path], here: int, everywhere: int, silent: bool
) -> None:
    """Where nothing starts on our own either, it is not the node."""
    stand_in("srun", f'case "$*" in *--nodelist=*) exit {here};; *--nodes=2*) exit {everywhere};; *) exit 9;; esac')
    assert is_one_silent(Allocation("slurm", "7", ("n1", "n2"))) == silent


def test_any_node_has_a_job_requeued_whose_first_is_gone(
    order: NodeOrder, stand_in: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Not while the head answers: locks may be those of each node alone."""
    for name, value in {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-3]", "SLURM_PROCID": "2"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("whorl.cluster.node._TURN_S", 0.2)
    monkeypatch.setattr("whorl.cluster.node._BATCH_GONE_S", 1.0)
    stand_in("scontrol", f'[ "$1" = requeue ] && touch {tmp_path}/requeued; echo JobState=RUNNING')
    node = Node(order)
    with socket.create_server(("127.0.0.1", 0)) as head:
        Meeting(order.run_dir, order.key).publish(f"127.0.0.1:{head.getsockname()[1]}")
        node._have_it_come_back()
    assert not (tmp_path / "requeued").exists()
    with claim(order.run_dir):
        node._have_it_come_back()
    assert not (tmp_path / "requeued").exists()
    node._have_it_come_back()
    assert (tmp_path / "requeued").exists()
    node._folder.rmdir()


def test_what_ray_says_in_many_lines_is_told_in_one(
    order: NodeOrder,
    stand_in: Callable[[str, str], Path],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    says = r"""read -r order; printf '%s\n' '{"error": "RuntimeError: no room\n  in /dev/shm\n"}'"""
    monkeypatch.setattr(sys, "executable", str(stand_in("ray_node", says)))
    node = Node(order)
    assert node.run() == 1
    assert node._ray is not None
    assert node._ray.stdout is not None
    node._ray.stdout.close()
    said = capfd.readouterr().err
    assert said.count("\n") == 1
    assert said.endswith("Ray could not be started here: RuntimeError: no room in /dev/shm\n")


def test_guests_leave_the_files_of_the_hosts_nodes_alone(order: NodeOrder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them has a node 0, as the host has."""

    def refuse(_self: Node, _ip: str, _join: str) -> str:
        raise WhorlError("no room")

    monkeypatch.setattr(Node, "_start_ray", refuse)
    monkeypatch.setattr("whorl.cluster.node.wait_until_reachable", lambda *_: "127.0.0.1")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n5")
    meeting = Meeting(order.run_dir, order.key)
    meeting.publish("127.0.0.1:1")
    for job in ("8", "9"):
        monkeypatch.setenv("SLURM_JOB_ID", job)
        node = Node(replace(order, guest=True))
        log = node._folder / "r" / "session_2" / "logs" / "raylet.out"
        log.parent.mkdir(parents=True)
        log.write_text(job)
        node._collect_logs()
        assert node.run() == 1
    assert (meeting.heard_of(0), meeting.exit_code()) == ("", None)
    kept = {path.parent.name: path.read_text() for path in (order.run_dir / "logs" / "ray").glob("*/raylet.out")}
    assert kept == {"7-abc-guest-8-0": "8", "7-abc-guest-9-0": "9"}


@pytest.mark.parametrize(("index", "gpus", "memory_mb"), [("0", 2, "16000"), ("1", 2, "16000"), ("2", 0, None)])
@pytest.mark.parametrize("name", ["PBS_NODENUM", "SLURM_PROCID"])
def test_each_kind_of_node_is_told_what_was_asked_for_there(
    tmp_path: Path, name: str, index: str, gpus: int, memory_mb: str | None
) -> None:
    """A launcher may pass on what the batch process was told, on a node of the other kind."""
    parts = (Part(nodes=2, cpus_per_node=8, gpus_per_node=2, memory_mb=16_000), Part(nodes=3, cpus_per_node=4))
    request = Request("job", tmp_path, parts, python="env", folder=tmp_path)
    environ = {"PATH": os.environ["PATH"], name: index, ASKED_GPUS: "2", ASKED_MEMORY: "16000"}
    words = ["bash", "-c", node_script(request)]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, check=True)
    told = dict(line.split("=", 1) for line in done.stdout.splitlines())
    share = own_share(told)
    assert (share.cpus, share.gpus) == (8 if gpus else 4, gpus)
    assert told.get(ASKED_MEMORY) == memory_mb


def test_kinds_of_which_nothing_was_asked_are_told_nothing(tmp_path: Path) -> None:
    request = Request("job", tmp_path, (Part(cpus_per_node=0), Part(cpus_per_node=0)), python="env", folder=tmp_path)
    for index in "01":
        environ = {"PATH": os.environ["PATH"], "PBS_NODENUM": index}
        words = ["bash", "-c", node_script(request)]
        done = subprocess.run(words, env=environ, capture_output=True, text=True, check=True)
        assert "WHORL" not in done.stdout


FAILS = "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1"


def asked(folder: Path) -> int:
    path = folder / ASKED
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_a_squeue_that_fails_is_asked_again(tmp_path: Path, stand_in: Callable[[str, str], Path]) -> None:
    stand_in("squeue", f"[ $(wc -l < {tmp_path / ASKED}) -gt 1 ] || {{ {FAILS}; }}; echo RUNNING None")
    QUEUE.await_start("7", 60)
    assert asked(tmp_path) == 2


def test_a_squeue_that_goes_on_failing_is_one_line(tmp_path: Path, stand_in: Callable[[str, str], Path]) -> None:
    stand_in("squeue", FAILS)
    stand_in("scancel", f"touch {tmp_path}/taken-back")
    with pytest.raises(WhorlError, match=r"squeue fails \(slurm_load_jobs error: .* controller\): whether job 7 has"):
        QUEUE.await_start("7", 0.6)
    assert asked(tmp_path) > 1
    assert not (tmp_path / "taken-back").exists()


def test_a_job_that_squeue_no_longer_knows_has_been(tmp_path: Path, stand_in: Callable[[str, str], Path]) -> None:
    stand_in("squeue", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    QUEUE.await_start("7", 60)
    assert asked(tmp_path) == 1


def test_a_job_that_waits_in_a_queue_of_pbs_is_taken_back(tmp_path: Path, stand_in: Callable[[str, str], Path]) -> None:
    stand_in("qstat", "echo '    job_state = Q'; echo '    comment = Not Running: Not enough free nodes available'")
    stand_in("qdel", f"echo $1 > {tmp_path}/taken-back")
    said = (
        r"job 7\.server did not start within 0\.6 s \(Not Running: Not enough free nodes available\) and was taken back"
    )
    with pytest.raises(WhorlError, match=said):
        PBS_QUEUE.await_start("7.server", 0.6)
    assert (tmp_path / "taken-back").read_text() == "7.server\n"


@pytest.mark.parametrize(
    "says", ["echo '    job_state = R'", "exit 35", "exit 153"], ids=["runs", "is over", "unknown"]
)
def test_a_job_of_pbs_that_has_started(stand_in: Callable[[str, str], Path], says: str) -> None:
    stand_in("qstat", says)
    PBS_QUEUE.await_start("7.server", 60)


@pytest.mark.parametrize("what", [("--", "train", "ppo", "CartPole-v1"), ("join", "/nowhere")], ids=["train", "join"])
def test_start_within_is_checked_before_anything_is_queued(
    tmp_path: Path,
    stand_in: Callable[[str, str], Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    what: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    stand_in("sbatch", "echo 7")
    assert main(["slurm", "--submit", "--start-within", "soon", *what]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "--start-within: expected an integer, at least 1; got 'soon'" in said
    assert asked(tmp_path) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["commands"]
