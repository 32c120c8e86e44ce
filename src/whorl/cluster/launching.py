"""How a batch system starts processes on the nodes of a job: ``srun``, ``pbsdsh``, ``mpiexec``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from whorl.cluster.addresses import launcher_interface
from whorl.cluster.allocation import Allocation, cpus_of_nodes
from whorl.cluster.orders import NO_ULFM, JobOrder
from whorl.cluster.timing import BEGAN
from whorl.errors import BadInputError
from whorl.runs.files import os_reason

_ALL_HERE = ("--mpi=none", "--kill-on-bad-exit=0")
_STAY = ("--no-kill", *_ALL_HERE)
_LAST_WORDS_S = 15
_ASK_FOR = "ask for more --nodes or --cpus-per-node, or for fewer"
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
        if order.ulfm:
            raise BadInputError(NO_ULFM)
        how = order.mpi or _pmi(order)
        sizes = [f"--ntasks={ranks}", *_places(allocation, order, ranks)]
        return ["srun", f"--mpi={how}", *sizes, f"--wait={_LAST_WORDS_S}", *command]
    from whorl.engines.mpi.finding import find_mpi

    mpi = find_mpi(order.library, order.ulfm)
    interface = order.interface if len(allocation.nodes) > 1 else ""  # alone, loopback will do, which Open MPI refuses
    told = [f"{name}={text}" for name, text in (mpi.environ | launcher_interface(interface)).items()]
    hosts = [os.environ.get("PBS_NODEFILE", "")] if os.environ.get("PBS_NODEFILE") else []
    where = [("-f" if mpi.name == "mpich" else "--hostfile"), *hosts] if hosts else []
    over = ["-iface", interface] if interface and mpi.name == "mpich" else []
    return ["env", *told, *mpi.command, *where, *over, "-n", str(ranks), *_told(), *command]


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


def _places(allocation: Allocation, order: JobOrder, ranks: int) -> list[str]:
    """Where srun is to put the ranks, a CPU for each. It knows no ranks with more: for learners with several threads
    each rank's node is named, and none is kept to one CPU."""
    nodes = allocation.nodes
    room = order.cpus_per_node * len(nodes) or cpus_of_nodes()
    if order.learner_threads == 1 or not room:
        if room and ranks > room:
            raise BadInputError(f"the plan needs {ranks} ranks and the job has {room} CPUs: {_ASK_FOR} --actors")
        return [f"--nodes={min(ranks, len(nodes))}", "--cpus-per-task=1", "--distribution=block"]
    free = dict.fromkeys(nodes, room // len(nodes))
    places = []
    for rank in range(ranks):
        needed = order.learner_threads if rank < order.learners else 1
        place = next((node for node in nodes if free[node] >= needed), None)
        if place is None:
            raise BadInputError(
                f"the plan needs {ranks} ranks, {order.learners} of them with {order.learner_threads} CPUs; the job "
                f"has {room // len(nodes)} on each of {len(nodes)} nodes: {_ASK_FOR} --actors or --learner-threads"
            )
        free[place] -= needed
        places.append(place)
    return ["--distribution=arbitrary", f"--nodelist={','.join(places)}", "--cpu-bind=none"]


def _pmi(order: JobOrder) -> str:
    """How the ranks of this Python's MPI find each other under srun."""
    from whorl.engines.mpi.finding import find_mpi

    return "pmix" if find_mpi(order.library).name == "openmpi" else "pmi2"
