"""What a dry run prints, and how trainings of paper scale come to use all nodes of a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from whorl.studies.command import print_commands
from whorl.studies.contract import Cell
from whorl.studies.registry import NAMES, get_study
from whorl.studies.running import through


def printed(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[str]:
    """Lines of a dry run."""
    print_commands(*arguments)  # type: ignore[arg-type]
    return capsys.readouterr().out.splitlines()


def test_a_dry_run_tells_roughly_how_long_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "vtrace", "small", None, None)
    assert lines[0] == "#!/bin/sh"
    count = len(get_study("vtrace").cells("small", "inline"))
    assert lines[1].startswith(f"# vtrace, scale small, engine inline: {count} cells, about ")
    assert lines[1].endswith("on 2 quiet cores")
    assert lines[2] == "export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1"
    whole = printed(capsys, "all", "smoke", None, None)
    assert whole[1].startswith(f"# {len(NAMES)} studies, about ")


def test_all_studies_print_the_folders_they_run_in(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "all", "smoke", None, Path("here"))
    runs = [line for line in lines if "--run-dir" in line]
    assert runs
    assert all("--run-dir here/" in line and "/cells/" in line for line in runs)
    assert any("--run-dir here/vtrace/cells/" in line for line in runs)


def test_paper_scale_is_a_batch_script_that_runs_the_study(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "scaling", "paper", None, None)
    assert lines[0] == "#!/bin/bash"
    assert "#SBATCH --nodes=16" in lines
    assert "#SBATCH --cpus-per-task=36" in lines
    assert [line for line in lines if not line.startswith("#")] == ["exec whorl study scaling --scale paper"]
    train = "# whorl slurm --nodes 16 --cpus-per-node 36 -- train ppo atari/Qbert-v0 "
    assert any(line.startswith(train) for line in lines), "what it runs, as comments"
    assert "# export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1" in lines
    named = printed(capsys, "windows", "paper", "local", Path("a b"))
    assert "exec whorl study windows --scale paper --engine local --study-dir 'a b'" in named


def test_in_a_job_of_several_nodes_trainings_use_them_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert through("paper") == ()
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n1,n2")
    monkeypatch.setenv("SLURM_CPUS_ON_NODE", "36")
    assert through("small") == ()
    words = through("paper")
    assert words == ("slurm", "--nodes", "2", "--cpus-per-node", "36", "--")
    spread = Cell({"a": 1}, 1, (("whorl", "train", "ppo", "X-v0", "--engine", "ray"), ("whorl", "resume", "there")))
    assert [command[3:] for command in spread.executable(tmp_path, words)] == [
        [*words, "train", "ppo", "X-v0", "--engine", "ray"],
        [*words, "resume", "there"],
    ]
    alone = Cell({"a": 1}, 1, (("whorl", "train", "ppo", "X-v0", "--engine", "local"),))
    assert alone.executable(tmp_path, words) == alone.executable(tmp_path)
    assert spread.shown("there", words)[1] == "whorl slurm --nodes 2 --cpus-per-node 36 -- resume there"
