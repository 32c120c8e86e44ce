"""What launchers are told: literal words in and out. Nothing is started."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from whorl.cluster.allocation import Allocation
from whorl.cluster.launching import as_ranks
from whorl.cluster.orders import JobOrder
from whorl.engines.mpi import finding
from whorl.errors import BadInputError

SLURM, PBS = Allocation("slurm", "7", ("n1", "n2")), Allocation("pbs", "7.server", ("a", "b"))


@pytest.fixture(autouse=True)
def both_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """MPICH and Open MPI, the first preferred; and no word of a batch system."""
    found = {
        "mpich": finding.Mpi("mpich", ["mpiexec.hydra"]),
        "openmpi": finding.Mpi("openmpi", ["ompirun_wrapper"], {"OMPI_MCA_osc": "^ucx"}),
    }
    monkeypatch.setattr(finding, "installed", lambda: found)
    for name in ("SLURM_JOB_ID", "SLURM_JOB_CPUS_PER_NODE", "PBS_NODEFILE", "WHORL_JOB_BEGAN", "MPI4PY_MPIABI"):
        monkeypatch.delenv(name, raising=False)


def launched(allocation: Allocation, ranks: int, **told: Any) -> list[str]:
    order = JobOrder(allocation.system, Path("run"), "1", "mpi", Path("node.sh"), **told)
    words = as_ranks(allocation, order, ranks, ["-m", "whorl"])
    assert words[-4:] == ["bash", "node.sh", "-m", "whorl"]
    return words[:-4]


def test_srun_is_told_what_the_mpi_of_the_settings_needs() -> None:
    places = ["--ntasks=3", "--nodes=2", "--cpus-per-task=1", "--distribution=block", "--wait=15"]
    assert launched(SLURM, 3) == ["srun", "--mpi=pmi2", *places]
    assert launched(SLURM, 3, library="openmpi") == ["srun", "--mpi=pmix", *places]
    assert launched(SLURM, 3, library="openmpi", mpi="pmix_v4") == ["srun", "--mpi=pmix_v4", *places]
    with pytest.raises(BadInputError, match=r"engine\.ulfm does not work under srun"):
        launched(SLURM, 3, library="openmpi", ulfm=True)


def test_mpiexec_is_that_of_the_settings_and_keeps_to_the_interface() -> None:
    assert launched(PBS, 3) == ["env", "mpiexec.hydra", "-n", "3"]
    assert launched(PBS, 3, interface="ib0")[-5:] == ["mpiexec.hydra", "-iface", "ib0", "-n", "3"]
    assert launched(PBS, 3, ulfm=True) == [
        "env",
        "OMPI_MCA_osc=^ucx",
        "ompirun_wrapper",
        "--with-ft",
        "ulfm",
        "-n",
        "3",
    ]
    assert launched(replace(PBS, nodes=("a",)), 3, interface="lo") == ["env", "mpiexec.hydra", "-n", "3"]
    told = launched(PBS, 3, library="openmpi", interface="ib0")
    assert told[-3:] == ["ompirun_wrapper", "-n", "3"]
    assert {"OMPI_MCA_oob_tcp_if_include=ib0", "PRTE_MCA_oob_tcp_if_include=ib0"} <= set(told)


def test_learners_with_several_threads_have_cpus_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = {"cpus_per_node": 4, "learners": 1, "learner_threads": 3}
    where = ["--distribution=arbitrary", "--nodelist=n1,n1,n2,n2,n2", "--cpu-bind=none", "--wait=15"]
    assert launched(SLURM, 5, **threads) == ["srun", "--mpi=pmi2", "--ntasks=5", *where]
    assert "--nodelist=n1,n2,n1,n2" in launched(SLURM, 4, **{**threads, "learners": 2})
    with pytest.raises(BadInputError, match=r"7 ranks, 1 of them with 3 CPUs; the job has 4 on each of 2 nodes: ask"):
        launched(SLURM, 7, **threads)
    with pytest.raises(BadInputError, match="the job has 4 on each of 2 nodes"):
        launched(SLURM, 2, **{**threads, "learner_threads": 5})
    with pytest.raises(BadInputError, match="9 ranks and the job has 8 CPUs"):
        launched(SLURM, 9, cpus_per_node=4)
    monkeypatch.setenv("SLURM_JOB_CPUS_PER_NODE", "4(x2)")
    assert launched(SLURM, 5, **{**threads, "cpus_per_node": 0})[3:] == where, "all that the nodes have"
