"""The parts of a batch job that need no batch system: literal numbers in and out."""

from __future__ import annotations

import socket
import stat
import threading
import time
from pathlib import Path

import pytest

from whorl.cluster import addresses
from whorl.cluster.addresses import (
    address_of,
    head_address,
    interface_of,
    one_network_device,
    route_to,
    wait_until_reachable,
)
from whorl.cluster.allocation import (
    Share,
    cpus_of_nodes,
    expand_nodes,
    find_allocation,
    node_index,
    own_share,
    rank_index,
)
from whorl.cluster.job import BatchJob
from whorl.cluster.meeting import JOINED, Meeting, claim, current_meeting
from whorl.cluster.orders import JobOrder
from whorl.cluster.restarts import note_start
from whorl.cluster.timing import TimeLimit, clock, job_end, seconds_of
from whorl.errors import BadInputError, RunBusyError, WhorlError
from whorl.runs.lock import RunLock


def test_short_forms_of_node_names_are_written_out() -> None:
    assert expand_nodes("n1") == ["n1"]
    assert expand_nodes("n[1-3,07],gpu2") == ["n1", "n2", "n3", "n07", "gpu2"]
    assert expand_nodes("nid[00098-00101]") == ["nid00098", "nid00099", "nid00100", "nid00101"]
    assert expand_nodes("a-[1,3]-ib,b") == ["a-1-ib", "a-3-ib", "b"]
    assert expand_nodes("r[1-2]n[08-09],x") == ["r1n08", "r1n09", "r2n08", "r2n09", "x"]
    assert expand_nodes("") == []


def test_an_allocation_is_found_in_the_environment(tmp_path: Path) -> None:
    assert find_allocation({}) is None
    slurm = find_allocation({"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-2]"})
    assert slurm is not None
    assert (slurm.system, slurm.job, slurm.nodes) == ("slurm", "7", ("n1", "n2"))
    kinds = {"SLURM_JOB_NODELIST_HET_GROUP_0": "g1", "SLURM_JOB_NODELIST_HET_GROUP_1": "c[1-2]"}
    mixed = find_allocation({"SLURM_JOB_ID": "7", "SLURM_HET_SIZE": "2", **kinds})
    assert mixed is not None
    assert mixed.nodes == ("g1", "c1", "c2")
    (tmp_path / "nodes").write_text("a\na\nb\nb\n")
    pbs = find_allocation({"PBS_JOBID": "7.server", "PBS_NODEFILE": str(tmp_path / "nodes")})
    assert pbs is not None
    assert (pbs.system, pbs.nodes) == ("pbs", ("a", "b"))


def test_what_is_ours_of_a_node_comes_from_the_allocation() -> None:
    given = {"SLURM_CPUS_ON_NODE": "3", "SLURM_GPUS_ON_NODE": "2", "SLURM_MEM_PER_NODE": "1000"}
    assert own_share(given) == Share(3, 2, 1000 * 2**20)
    per_cpu = {"SLURM_CPUS_ON_NODE": "3", "SLURM_MEM_PER_CPU": "500", "CUDA_VISIBLE_DEVICES": "0,3"}
    assert own_share(per_cpu) == Share(3, 2, 1500 * 2**20)
    asked = {"WHORL_NODE_CPUS": "5", "WHORL_NODE_GPUS": "1", "WHORL_NODE_MEMORY_MB": "10"}
    assert own_share(asked) == Share(5, 1, 10 * 2**20)
    of_batch = {"SLURM_CPUS_ON_NODE": "2", "SLURM_MEM_PER_NODE": "10", "SLURM_JOB_GPUS": "0,1"}
    assert own_share(of_batch).gpus == 2
    assert own_share({**of_batch, "SLURM_STEP_ID": "0"}).gpus == 0, "srun passes the first node's list on to all"
    assert own_share({**of_batch, "SLURM_STEP_ID": "0", "SLURM_STEP_GPUS": "3"}).gpus == 1
    assert node_index({"PBS_NODENUM": "2"}) == 2
    with pytest.raises(BadInputError, match="which node of the job is this"):
        node_index({})
    assert rank_index({"SLURM_PROCID": "0", "PMI_RANK": "3"}) == 3
    assert rank_index({}) == 0
    assert cpus_of_nodes({"SLURM_JOB_CPUS_PER_NODE": "4"}) == 4
    assert cpus_of_nodes({"SLURM_JOB_CPUS_PER_NODE": "36(x3),4,2(x2)"}) == 116
    assert cpus_of_nodes({}) == 0


def test_an_interface_is_looked_for_where_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``salloc`` may run its command on a machine that is none of the job's nodes."""
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-2]")
    monkeypatch.delenv("SLURMD_NODENAME", raising=False)
    job = BatchJob(JobOrder("slurm", tmp_path, "1", "ray", tmp_path / "node.sh", interface="ib7"))
    assert job._launch(Meeting(tmp_path, "7-abc"), ["train"])[0] == "srun"
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    with pytest.raises(BadInputError, match="--interface ib7"):
        job._launch(Meeting(tmp_path, "7-abc"), ["train"])


def test_a_head_is_told_where_the_others_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On PBS, only the batch process can be sure to see the list of nodes."""
    (tmp_path / "nodes").write_text("a\nb\nc\n")
    monkeypatch.setenv("PBS_JOBID", "7.server")
    monkeypatch.setenv("PBS_NODEFILE", str(tmp_path / "nodes"))
    job = BatchJob(JobOrder("pbs", tmp_path, "1", "ray", tmp_path / "node.sh"))
    words = job._node_words(Meeting(tmp_path, "7-abc"), ["train"])
    assert words[words.index("--towards") + 1] == "b"


def test_times_are_read_as_slurm_writes_them() -> None:
    written = {"90": 5400, "1:30": 90, "1:30:00": 5400, "2-12": 216_000, "2-12:30": 217_800, "1-00:00:01": 86_401}
    assert {text: seconds_of(text, "--time") for text in written} == written
    assert clock(216_000) == "60:00:00"
    for text in ("", "0", "soon", "-5", "1:2:3:4"):
        with pytest.raises(BadInputError, match="--time: expected a time"):
            seconds_of(text, "--time")
    assert job_end({}) is None
    assert job_end({"WHORL_JOB_SECONDS": "600", "WHORL_JOB_BEGAN": "1000"}) == 1600


def test_a_limit_is_near_when_it_is_and_asks_again_whether_it_was_moved() -> None:
    now = time.time()
    ends = [now + 0.4, now + 100]
    limit = TimeLimit(60, lambda: ends.pop(0) if len(ends) > 1 else ends[0])
    assert not limit.is_near()
    time.sleep(0.35)  # three quarters of it, since it is so short
    assert not limit.is_near(), "it was raised meanwhile"
    assert TimeLimit(60, lambda: time.time() - 1).is_near()
    assert not TimeLimit(60, lambda: None).is_near()


def test_orders_survive_the_command_line() -> None:
    order = JobOrder("slurm", Path("/a b/run"), "ab", "ray", Path("/a b/run/job/node.sh"), requeue=False, heads=2)
    told = JobOrder("pbs", Path("x"), "1", "mpi", Path("y"), words=("train", "ppo", "--set", "a=b c", "--", "x"))
    for each in (order, told):
        assert JobOrder.from_words(each.to_words()) == each


def test_addresses_are_those_of_an_interface_or_of_the_way() -> None:
    assert address_of("lo") == "127.0.0.1"
    assert (interface_of("127.0.0.1"), interface_of("192.0.2.1")) == ("lo", "")
    assert route_to("127.0.0.1") == "127.0.0.1"
    assert head_address("", ()) == "127.0.0.1"
    assert head_address("", ("127.0.0.1",)) == "127.0.0.1"
    with pytest.raises(BadInputError, match=r"--interface ib7: .* there are .*lo"):
        address_of("ib7")
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert wait_until_reachable(address, "lo", time.monotonic() + 5) == "127.0.0.1"
    with pytest.raises(WhorlError, match=r"cannot be reached from .*: it listens on its own node alone; start its job"):
        wait_until_reachable(address, "", time.monotonic())


def test_nodes_meet_in_files_that_only_their_owner_can_read(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="no job of `whorl slurm` runs here"):
        current_meeting(tmp_path)
    head = Meeting(tmp_path, "7-abc")
    head.open()
    other = Meeting(tmp_path, "7-abc")
    with pytest.raises(WhorlError, match="the head did not say"):
        other.address(time.monotonic())
    head.publish("10.0.0.1:4711")
    assert other.address(time.monotonic()) == "10.0.0.1:4711"
    assert stat.S_IMODE((head.folder / "address").stat().st_mode) == 0o600
    assert stat.S_IMODE(head.folder.stat().st_mode) == 0o700
    other.report(1, JOINED)
    assert (head.heard_of(1), head.heard_of(2)) == (JOINED, "")
    with pytest.raises(BadInputError, match="only runs on engine ray can be joined"):
        current_meeting(tmp_path)
    head.token_file.touch()
    assert current_meeting(tmp_path).key == "7-abc"
    head.say_exit(75)
    assert other.exit_code() == 75
    with RunLock(tmp_path / "lock"), pytest.raises(RunBusyError, match="job 7 runs here"):
        Meeting(tmp_path, "8-abc").open()
    again = Meeting(tmp_path, "7-def")
    again.open()
    assert not head.folder.exists(), "what a former start has left is cleared away"
    again.close()
    assert not (tmp_path / "job" / "current").exists()


def test_a_run_directory_is_one_jobs_from_its_start_to_its_end(tmp_path: Path) -> None:
    """Also while its nodes come up: nobody holds the run's own lock then."""
    with claim(tmp_path):
        meeting = Meeting(tmp_path, "7-abc")
        meeting.open()
        with pytest.raises(RunBusyError, match=r"job 7 starts or runs here \(pid \d+ on .*\); wait for it"):
            claim(tmp_path)
        assert meeting.folder.is_dir()
    claim(tmp_path).close()


def test_a_start_waits_for_the_lock_of_an_earlier_one_of_its_job(tmp_path: Path) -> None:
    """Its node was lost, and the file system does not know it yet."""
    with claim(tmp_path) as lock:
        Meeting(tmp_path, "7-abc").open()
        with pytest.raises(RunBusyError, match="job 7 starts or runs here"):
            claim(tmp_path, "8")
        later = threading.Timer(1.5, lock.close)
        later.start()
        claim(tmp_path, "7").close()
        later.join()


def test_starts_without_progress_are_bounded(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    note_start(tmp_path, 2)
    note_start(tmp_path, 2)
    (tmp_path / "checkpoints" / "update-000000005").mkdir(parents=True)
    for _ in range(3):
        note_start(tmp_path, 2)
    with pytest.raises(WhorlError, match="started 4 times without coming to a checkpoint after update 5"):
        note_start(tmp_path, 2)


def test_progress_of_a_study_is_that_of_its_trials(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    for folder in ("trials/0000", "trials/0001", "trials/0001/checkpoints/update-000000005"):
        (tmp_path / folder).mkdir(parents=True)
        for _ in range(3):
            note_start(tmp_path, 2)
    with pytest.raises(WhorlError, match="started 4 times without coming to a newer checkpoint of any trial"):
        note_start(tmp_path, 2)


def test_mpi_keeps_to_a_named_interface(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("UCX_NET_DEVICES", "OMPI_MCA_btl_tcp_if_include"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(addresses, "_ADAPTERS", tmp_path / "infiniband")
    monkeypatch.setattr(addresses, "_NETWORK", tmp_path / "net")
    named = {"UCX_NET_DEVICES": "lo", "OMPI_MCA_btl_tcp_if_include": "lo"}
    assert one_network_device("", ["127.0.0.1"]) == {"UCX_NET_DEVICES": "lo"}
    assert one_network_device("lo", []) == named
    (tmp_path / "infiniband" / "mlx5_0").mkdir(parents=True)
    assert one_network_device("", ["127.0.0.1"]) == {}
    assert one_network_device("lo", []) == named, "also where there is InfiniBand"
    (tmp_path / "net" / "lo" / "device" / "infiniband" / "mlx5_0").mkdir(parents=True)
    assert one_network_device("lo", [])["UCX_NET_DEVICES"] == "mlx5_0:1,lo", "which is behind this one"
    monkeypatch.setenv("UCX_NET_DEVICES", "all")
    assert one_network_device("lo", []) == {"OMPI_MCA_btl_tcp_if_include": "lo"}
