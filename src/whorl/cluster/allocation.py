"""What a batch system has given to this job: read from the job's environment, and never from the machine."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from whorl.errors import BadInputError

ASKED_CPUS, ASKED_GPUS, ASKED_MEMORY = "WHORL_NODE_CPUS", "WHORL_NODE_GPUS", "WHORL_NODE_MEMORY_MB"
"""What the script asked for on each node; where the batch system does not say on the node what it gave, this is it."""
_NODE_INDEX = ("SLURM_PROCID", "PBS_NODENUM")
_RANK_INDEX = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID")
_LISTS = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES")
_OF_BATCH = "SLURM_JOB_GPUS"
"""srun passes it on from the batch process, also to a node that has none."""


@dataclass(frozen=True)
class Share:
    """What is ours of one node."""

    cpus: int
    gpus: int
    memory_bytes: int


@dataclass(frozen=True)
class Allocation:
    """A job of a batch system."""

    system: str
    """``slurm`` or ``pbs``."""
    job: str
    nodes: tuple[str, ...]


def is_in_job(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether this process runs in a job of a batch system; no file of the job is read, which a container may lack."""
    return "SLURM_JOB_ID" in environ or "PBS_JOBID" in environ


def find_allocation(environ: Mapping[str, str] = os.environ, system: str = "") -> Allocation | None:
    """The job that this process runs in; None outside of one. A Slurm that is spoken to in PBS's words is still one."""
    if "SLURM_JOB_ID" in environ and system in ("", "slurm"):
        return Allocation("slurm", environ["SLURM_JOB_ID"], _slurm_nodes(environ))
    if "PBS_JOBID" in environ or ("SLURM_JOB_ID" in environ and system == "pbs"):
        job = environ.get("PBS_JOBID") or environ["SLURM_JOB_ID"]
        return Allocation("pbs", job, _pbs_nodes(environ))
    return None


def is_first_node(allocation: Allocation, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether this process is on the first node of its job. A batch script is; a command of ``salloc`` is often not."""
    return allocation.system == "pbs" or environ.get("SLURMD_NODENAME") == allocation.nodes[0]


def node_index(environ: Mapping[str, str] = os.environ) -> int:
    """Which of the job's nodes this is, where one process was started on each."""
    index = _number(environ, *_NODE_INDEX)
    if index is None:
        raise BadInputError(
            f"which node of the job is this? None of {', '.join(_NODE_INDEX)} is set: start it by srun or pbsdsh"
        )
    return index


def rank_index(environ: Mapping[str, str] = os.environ) -> int:
    """Which of the processes this is that an MPI's launcher has started; 0 for one alone. Its own word comes first:
    Slurm or PBS may have started the launcher's helpers, one on each node."""
    return _number(environ, *_RANK_INDEX) or 0


def cpus_of_nodes(environ: Mapping[str, str] = os.environ) -> int:
    """CPUs that Slurm has given to the job, on all its nodes together; 0 where it does not say."""
    found = re.findall(r"(\d+)(?:\(x(\d+)\))?", environ.get("SLURM_JOB_CPUS_PER_NODE", ""))
    return sum(int(cpus) * int(nodes or 1) for cpus, nodes in found)


def own_share(environ: Mapping[str, str] = os.environ) -> Share:
    """CPUs, GPUs and memory of this node that belong to the job."""
    cpus = _number(environ, "SLURM_CPUS_ON_NODE", ASKED_CPUS, "NCPUS") or len(os.sched_getaffinity(0))
    gpus = _number(environ, "SLURM_GPUS_ON_NODE", ASKED_GPUS)
    for name in _LISTS:
        is_ours = name != _OF_BATCH or "SLURM_STEP_ID" not in environ
        if gpus is None and is_ours and environ.get(name):
            gpus = len([each for each in environ[name].split(",") if each])
    return Share(cpus, gpus or 0, _memory_bytes(environ, cpus))


def _memory_bytes(environ: Mapping[str, str], cpus: int) -> int:
    megabytes = _number(environ, "SLURM_MEM_PER_NODE")
    if not megabytes and (per_cpu := _number(environ, "SLURM_MEM_PER_CPU")):
        megabytes = per_cpu * cpus
    megabytes = megabytes or _number(environ, ASKED_MEMORY)
    if megabytes:
        return megabytes * 2**20
    # Nobody limits it: as much of the machine's as of its CPUs.
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(total, total * cpus // max(1, os.cpu_count() or 1))


def _number(environ: Mapping[str, str], *names: str) -> int | None:
    return next((int(environ[name]) for name in names if environ.get(name, "").isdigit()), None)


def _slurm_nodes(environ: Mapping[str, str]) -> tuple[str, ...]:
    groups = _number(environ, "SLURM_HET_SIZE")
    if groups:
        lists = [environ.get(f"SLURM_JOB_NODELIST_HET_GROUP_{group}", "") for group in range(groups)]
        return tuple(node for each in lists for node in expand_nodes(each))
    return tuple(expand_nodes(environ.get("SLURM_JOB_NODELIST", "")))


def _pbs_nodes(environ: Mapping[str, str]) -> tuple[str, ...]:
    path = environ.get("PBS_NODEFILE", "")
    try:
        lines = Path(path).read_text().split() if path else []
    except OSError as error:
        raise BadInputError(f"PBS_NODEFILE: {path}: {error.strerror}") from error
    return tuple(dict.fromkeys(lines)) or _slurm_nodes(environ)


def expand_nodes(text: str) -> list[str]:
    """Slurm's short form of names written out: ``n[1-3,07],gpu2`` are n1, n2, n3, n07 and gpu2. Of several brackets in
    a name the last one counts fastest, as in Slurm."""
    nodes: list[str] = []
    for name in re.findall(r"(?:\[[^\]]*\]|[^,\[\]])+", text):
        parts = re.findall(r"\[([^\]]*)\]|([^\[]+)", name)
        nodes += map("".join, product(*(_numbers(inside) if inside else [plain] for inside, plain in parts)))
    return nodes


def _numbers(inside: str) -> list[str]:
    """What is between two brackets: ``1-3,07`` are 1, 2, 3 and 07."""
    found: list[str] = []
    for piece in inside.split(","):
        first, _, last = piece.partition("-")
        found += [f"{number:0{len(first)}d}" for number in range(int(first), int(last or first) + 1)]
    return found
