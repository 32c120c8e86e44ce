"""Studies at paper scale as batch scripts: a Slurm with the nodes they are made for takes each of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.slurm.cluster import SlurmCluster

from whorl.studies.command import print_commands
from whorl.studies.registry import NAMES, get_study


@pytest.fixture
def large() -> Iterator[SlurmCluster]:
    """As many nodes and CPUs as the largest study asks for; nothing runs on them."""
    machines = [get_study(name).machine for name in NAMES]
    cluster = SlurmCluster(
        nodes=max(machine.nodes for machine in machines),
        cpus=max(machine.cpus for machine in machines),
        gpus=max(machine.gpus for machine in machines),
    )
    yield cluster
    cluster.end()


@pytest.mark.verify
@pytest.mark.timeout(900)
def test_slurm_takes_the_script_of_every_study_at_paper_scale(
    large: SlurmCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (*NAMES, "all"):
        print_commands(name, "paper", None, None)
        script = tmp_path / f"{name}.sh"
        script.write_text(capsys.readouterr().out)
        large.run("bash", "-n", script)
        large.run("sbatch", "--test-only", script)
