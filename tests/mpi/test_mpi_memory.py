"""The memory that ranks share has no name for longer than a moment, and what a moment left is swept up."""

from __future__ import annotations

import mmap
import os
import time
from pathlib import Path

import pytest

from whorl.envs.mpi_memory import SHM, mpich_form, sweep_stale


def named(folder: Path, name: str, age_s: float) -> Path:
    path = folder / name
    path.write_bytes(b"\0" * mmap.PAGESIZE)
    os.utime(path, (time.time() - age_s,) * 2)
    return path


def test_only_what_is_old_and_of_mpi_is_swept_up(tmp_path: Path) -> None:
    stale = {named(tmp_path, "mpich_shm_1f_0", 3600), named(tmp_path, "sm_segment.host.0.6673.1", 3600)}
    kept = {named(tmp_path, "mpich_shm_2f_0", 1), named(tmp_path, "somebody_else", 3600)}
    assert set(sweep_stale(tmp_path)) == stale
    assert set(tmp_path.iterdir()) == kept


def test_names_that_this_job_step_will_take_are_swept_up_sooner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As MPICH names memory for Slurm's step 9.0: the requeued job's as well as its own of before."""
    left, young = named(tmp_path, "mpich_shm_e200f4fa_1", 5), named(tmp_path, "mpich_shm_e200f4fa_0", 0)
    other = named(tmp_path, "mpich_shm_e300f68d_1", 5)
    monkeypatch.setenv("PMI_JOBID", "9.0")
    assert sweep_stale(tmp_path) == [left]
    assert set(tmp_path.iterdir()) == {young, other}


def test_a_name_is_spelt_as_mpich_spells_it() -> None:
    """Both as they were found on a disk: one job of sixteen has a hash that begins with a zero."""
    assert mpich_form("9.0") == "mpich_shm_e200f4fa_"
    assert mpich_form("9802766.0") == "mpich_shm_1abe0f9_"


def test_what_an_earlier_try_in_the_same_job_has_left_goes_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = {named(tmp_path, f"{mpich_form(step)}0", 5) for step in ("9.0", "9.1")}
    kept = {named(tmp_path, f"{mpich_form(step)}0", 5) for step in ("9.2", "8.0")}
    monkeypatch.setenv("PMI_JOBID", "9.1")
    assert set(sweep_stale(tmp_path)) == left
    assert set(tmp_path.iterdir()) == kept


def test_what_somebody_has_mapped_stays() -> None:
    path = named(SHM, f"mpich_shm_{os.getpid():x}_9", 3600)
    try:
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 0):
            assert path not in sweep_stale()
        assert path in sweep_stale()
        assert not path.exists()
    finally:
        path.unlink(missing_ok=True)
