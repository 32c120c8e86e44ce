"""How a batch system starts processes on the nodes of a job: ``srun``, ``pbsdsh``, ``mpiexec``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from whorl.cluster.allocation import Allocation, cpus_of_nodes
from whorl.cluster.orders import JobOrder
from whorl.cluster.timing import BEGAN
from whorl.errors import BadInputError
from whorl.runs.files import os_reason

_ALL_HERE = ("--mpi=none", "--kill-on-bad-exit=0")
_STAY = ("--no-kill", *_ALL_HERE)
_LAST_WORDS_S = 15
_OF_BATCH = ("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE", "SLURM_CPUS_PER_TASK")
"""What sbatch was told; srun would take it for what it is told itself."""


def start(command: list[str]) -> subprocess.Popen[bytes]:
    """Run a launcher."""
    try:
        return subprocess.Popen(command, env=launcher_environ())
    except OSError as error:
        raise BadInputError(
            f"{command[0]} cannot be run by the batch process ({os_reason(error)}): where --python starts a container, "
            "bind the batch system's commands into it (docs/how-to/slurm.md)"
        ) from None


def launcher_environ() -> dict[str, str]:
    """Without anything that a launcher would take for an option."""
    return {name: text for name, text in os.environ.items() if name not in _OF_BATCH}


def on_every_node(allocation: Allocation, order: JobOrder, words: list[str]) -> list[str]:
    """One process on each node, which is told by its environment which one it is. A lost node is for Ray to mind."""
    command = ["bash", str(order.node_script), *words]
    if _has_srun(allocation):
        groups = het_groups()
        if groups == 1:
            sizes = [f"--nodes={len(allocation.nodes)}", f"--ntasks={len(allocation.nodes)}", "--ntasks-per-node=1"]
            return ["srun", *sizes, *_cpus(order.cpus_per_node), *_STAY, *command]
        parts: list[str] = []
        for group in range(groups):
            cpus = int(os.environ.get(f"SLURM_CPUS_PER_TASK_HET_GROUP_{group}", "0"))
            mine = [f"--het-group={group}", "--ntasks-per-node=1", *_cpus(cpus), *_STAY]
            parts += [*([":"] if group else []), *mine, *command]
        return ["srun", *parts]
    if shutil.which("pbsdsh"):
        return ["pbsdsh", "--", *_told(), *command]
    if len(allocation.nodes) == 1:
        return [sys.executable, *words]
    raise BadInputError(f"neither srun nor pbsdsh is here to start something on {allocation.nodes[1]}")


def as_ranks(allocation: Allocation, order: JobOrder, ranks: int, words: list[str]) -> list[str]:
    """So many ranks of MPI over the nodes of the job, the first of them on the first node. When one has ended, the
    others have a while to say why."""
    command = ["bash", str(order.node_script), *words]
    if _has_srun(allocation):
        how = order.mpi or _pmi()
        _check_room(allocation, order, ranks)
        sizes = [f"--ntasks={ranks}", f"--nodes={min(ranks, len(allocation.nodes))}", "--cpus-per-task=1"]
        return ["srun", f"--mpi={how}", *sizes, "--distribution=block", f"--wait={_LAST_WORDS_S}", *command]
    from whorl.engines.mpi.finding import find_mpi

    mpi = find_mpi("auto")
    hosts = [os.environ.get("PBS_NODEFILE", "")] if os.environ.get("PBS_NODEFILE") else []
    where = [("-f" if mpi.name == "mpich" else "--hostfile"), *hosts] if hosts else []
    return [*mpi.command, *where, "-n", str(ranks), *_told(), *command]


def nothing_on(allocation: Allocation, *, everywhere: bool) -> list[str]:
    """A step that does nothing, on every node of a job of Slurm's or on this one, whatever else runs there (the
    memory of a step that cannot end without its lost node is not free)."""
    step = ["srun", "--overlap", "--mem=0", "--mpi=none", "--quiet"]
    if not everywhere:
        return [*step, "--nodes=1", "--ntasks=1", f"--nodelist={os.environ.get('SLURMD_NODENAME', '')}", "true"]
    count = len(allocation.nodes)
    groups = het_groups()
    where = [f"--nodes={count}", f"--ntasks={count}"] if groups == 1 else [f"--het-group=0-{groups - 1}"]
    return [*step, *where, "--ntasks-per-node=1", "true"]


def alone(allocation: Allocation, order: JobOrder, words: list[str]) -> list[str]:
    """One process on the first node, with all that the job has there. Without srun it is this process's child, which
    has the prologue behind it, and is in its container, already."""
    if _has_srun(allocation):
        command = ["bash", str(order.node_script), *words]
        return ["srun", "--nodes=1", "--ntasks=1", *_cpus(order.cpus_per_node), *_ALL_HERE, *command]
    return [sys.executable, *words]


def het_groups() -> int:
    """Of how many components a heterogeneous job of Slurm's is made; 1 for an ordinary one."""
    return int(os.environ.get("SLURM_HET_SIZE", "1"))


def _told() -> list[str]:
    """What processes elsewhere must know, where the launcher passes no environment on: when the job began."""
    return ["env", f"{BEGAN}={os.environ[BEGAN]}"] if BEGAN in os.environ else []


def _has_srun(allocation: Allocation) -> bool:
    """Also where Slurm takes PBS's scripts."""
    return allocation.system == "slurm" or ("SLURM_JOB_ID" in os.environ and shutil.which("pbsdsh") is None)


def _cpus(count: int) -> list[str]:
    """For the one process of each node; without a word, srun gives it all that the job has there."""
    return [f"--cpus-per-task={count}"] * bool(count)


def _check_room(allocation: Allocation, order: JobOrder, ranks: int) -> None:
    room = order.cpus_per_node * len(allocation.nodes) or cpus_of_nodes()
    if room and ranks > room:
        raise BadInputError(
            f"the plan needs {ranks} ranks and the job has {room} CPUs: ask for more --nodes or --cpus-per-node, or "
            "for fewer --actors"
        )


def _pmi() -> str:
    """How the ranks of this Python's MPI find each other under srun."""
    from whorl.engines.mpi.finding import find_mpi

    return "pmix" if find_mpi("auto").name == "openmpi" else "pmi2"
