"""Starting ranks, or being started as one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.mpi.conftest import WITHOUT_SHARED_MEMORY, require, result_of

from whorl.engines.mpi import finding
from whorl.engines.mpi.causes import cause_told
from whorl.errors import MissingExtraError

SMALL = (
    *("train", "ppo", "CartPole-v1", "--actors", "2", "--envs-per-actor", "2", "--steps", "200"),
    *("--set", "agent.rows=16", "--set", "agent.network.hidden=[16]"),
)
ROOT = Path(__file__).parents[2]


def launcher(mpi: str, ranks: int) -> tuple[list[str], dict[str, str]]:
    require(mpi)
    found = finding.installed()[mpi]
    return [*found.command, "-n", str(ranks)], found.environ


@pytest.mark.parametrize("mpi", ["mpich", pytest.param("openmpi", marks=pytest.mark.verify)])
def test_ranks_of_a_launcher_are_found_and_the_plan_is_shown(whorl_command, tmp_path: Path, mpi: str) -> None:
    before, environ = launcher(mpi, 4)
    ended = whorl_command(*SMALL, "--run-dir", tmp_path / "run", before=before, **environ)
    assert ended.code == 0, ended.err
    shown = ended.out.splitlines()
    assert shown[0].split() == ["rank", "node", "role", "groups"]
    assert [line.split()[2] for line in shown[1:4]] == ["learner-0", "actor-0", "actor-1"]
    assert shown[4] == "ranks 3 to 3 have no role and sleep"
    assert result_of(tmp_path / "run")["engine"] == "mpi"


def test_too_few_ranks_are_refused_in_one_line(whorl_command, tmp_path: Path) -> None:
    before, environ = launcher("mpich", 2)
    ended = whorl_command(*SMALL, "--run-dir", tmp_path / "run", before=before, **environ)
    assert ended.code == 2
    assert "the plan needs 3 ranks (1 learner, 2 actor) and 2 were started: use mpiexec -n 3" in ended.err
    assert ended.err.count("whorl: ") == 1
    assert not (tmp_path / "run").exists()


def test_a_missing_mpi_gives_the_line_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "installed", dict)
    with pytest.raises(MissingExtraError, match=r"pip install 'whorl\[mpi\]'"):
        finding.find_mpi("auto")


def test_places_are_found_in_what_launchers_set(monkeypatch: pytest.MonkeyPatch) -> None:
    assert finding.launched() is None
    for names, mpi in (
        (("PMI_RANK", "PMI_SIZE"), "mpich"),
        (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), "openmpi"),
    ):
        with monkeypatch.context() as patch:
            patch.setenv(names[0], "1")
            patch.setenv(names[1], "4")
            assert finding.launched() == (1, 4, mpi)
            patch.setenv(names[1], "1")
            assert finding.launched() is None  # one task of srun is no job of many


def test_the_words_of_launchers_are_understood() -> None:
    mpich = "=   PID 4711 RUNNING AT vm\n=   EXIT CODE: 9\n=   CLEANING UP"
    assert cause_told(mpich) == (None, 4711, "killed by SIGKILL")
    openmpi = "prterun noticed that process rank 2 with PID 12 on node vm exited on\nsignal 11 (Segmentation fault)."
    assert cause_told(openmpi) == (2, None, "killed by SIGSEGV")
    assert cause_told("nothing of the kind") == (None, None, "")


def run_contract(mpi: str, one_sided: str, **environ: str) -> None:
    require(mpi)
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "tests/contract", "-k", "mpi", "-p", "no:cacheprovider"],
        cwd=ROOT,
        env={**os.environ, "WHORL_TEST_MPI": mpi, "WHORL_TEST_ONE_SIDED": one_sided, **environ},
        check=True,
        timeout=600,
    )


@pytest.mark.verify
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
@pytest.mark.parametrize("one_sided", ["always", "never"])
def test_the_contract_holds_on_every_mpi(mpi: str, one_sided: str) -> None:
    run_contract(mpi, one_sided)


@pytest.mark.verify
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_the_contract_holds_without_shared_memory(mpi: str) -> None:
    run_contract(mpi, "auto", **WITHOUT_SHARED_MEMORY[mpi])


@pytest.mark.verify
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_the_contract_holds_between_nodes(mpi: str) -> None:
    run_contract(mpi, "auto", WHORL_MPI_RANKS_PER_NODE="2")
