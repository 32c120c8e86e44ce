"""Real kills, a really full disk, really damaged files."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from whorl.errors import BadInputError, CheckpointError
from whorl.runs.checkpoint import CheckpointMeta, CheckpointWriter, find_checkpoints, load_latest
from whorl.runs.checkpoint.faults import STAGES, FaultPoints
from whorl.runs.checkpoint.format import decode_manifest
from whorl.runs.directory import RunDirectory

from .saving import assert_loads, save_update

SAVE_THREE = """
import sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from saving import save_update
from whorl.runs.checkpoint import CheckpointWriter
writer = CheckpointWriter(Path(sys.argv[1]), keep=1, token=1)
for update in (1, 2, 3):
    save_update(writer, update)
    print(update, flush=True)
"""

PASSAGES = {"arrays": 3, "json": 2, "prune": 1}
"""Which passage of a stage belongs to the second save: two array files each, nothing to prune in the first."""


@pytest.mark.parametrize("stage", STAGES)
def test_killed_at_every_stage_the_newest_valid_one_loads(run: RunDirectory, stage: str) -> None:
    fault = f"{stage}:kill:{PASSAGES.get(stage, 2)}"
    killed = subprocess.run(
        [sys.executable, "-c", SAVE_THREE, run.checkpoints, Path(__file__).parent],
        env={**os.environ, "WHORL_FAULT_SAVE": fault},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert killed.stdout == "1\n"
    survivor = 2 if stage in ("rename_done", "verify", "prune") else 1
    assert assert_loads(run.checkpoints, survivor) == []
    # The next run of the same directory goes on, and nothing half done stays.
    with run.lock() as lock:
        save_update(CheckpointWriter(run.checkpoints, keep=1, token=lock.token), 2)
        save_update(CheckpointWriter(run.checkpoints, keep=1, token=lock.token), 3)
    assert_loads(run.checkpoints, 3)
    assert [entry.name for entry in run.checkpoints.iterdir()] == ["update-000000003"]


@pytest.mark.parametrize("action", ["eio", "enospc"])
@pytest.mark.parametrize("stage", [stage for stage in STAGES if stage != "prune"])
def test_an_error_at_every_stage_keeps_the_old_one(run: RunDirectory, stage: str, action: str) -> None:
    writer = CheckpointWriter(run.checkpoints, keep=1, token=1, faults=FaultPoints())
    save_update(writer, 1)
    writer.faults = FaultPoints(stage, action, 1)
    with pytest.raises(CheckpointError, match=r"checkpoint not saved: .* \(asked for .*the older ones are kept"):
        save_update(writer, 2)
    assert [entry.name for entry in run.checkpoints.iterdir()] == ["update-000000001"]
    assert assert_loads(run.checkpoints, 1) == []
    save_update(writer, 3)
    assert assert_loads(run.checkpoints, 3) == []


def test_an_error_in_pruning_does_not_harm_the_new_one(run: RunDirectory) -> None:
    writer = CheckpointWriter(run.checkpoints, keep=1, token=1, faults=FaultPoints("prune", "eio", 1))
    save_update(writer, 1)
    save_update(writer, 2)
    assert "could not be removed" in writer.warnings[0]
    assert assert_loads(run.checkpoints, 2) == []


@pytest.mark.parametrize("text", ["rename", "rename:explode", "nowhere:kill", "rename:kill:x"])
def test_fault_points_are_checked(text: str) -> None:
    with pytest.raises(BadInputError, match="stage one of begin, arrays"):
        FaultPoints.from_environment({"WHORL_FAULT_SAVE": text})


def test_a_really_full_disk(small_disk: Path) -> None:
    writer = CheckpointWriter(small_disk, keep=2, token=1)
    save_update(writer, 1)
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(700_000))
    draft = writer.begin(2)
    with pytest.raises(CheckpointError, match="No space left on device; the older ones are kept"):
        draft.write_arrays("learner", {"weights": np.zeros(100_000, np.float64)})
    assert sorted(entry.name for entry in small_disk.iterdir()) == ["ballast", "update-000000001"]
    assert assert_loads(small_disk, 1) == []
    ballast.unlink()
    save_update(writer, 2, size=50_000)
    assert assert_loads(small_disk, 2) == []


def flip_bit(path: Path, position: int, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << bit
    path.write_bytes(bytes(data))


@pytest.fixture
def two(run: RunDirectory) -> Path:
    writer = CheckpointWriter(run.checkpoints, keep=3, token=1)
    save_update(writer, 1)
    return save_update(writer, 2)


FILES = ["learner.safetensors", "ledger-0.safetensors", "state.json", "manifest.json"]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["truncated", "emptied", "flipped", "missing", "swapped", "longer"])
def test_a_damaged_newest_falls_back_loudly(two: Path, name: str, damage: str) -> None:
    path = two / name
    if damage == "truncated":
        os.truncate(path, path.stat().st_size - 1)
    elif damage == "emptied":
        os.truncate(path, 0)
    elif damage == "flipped":
        flip_bit(path, path.stat().st_size - 2, 0)  # in the data, where only the hash notices
    elif damage == "missing":
        path.unlink()
    elif damage == "longer":
        path.write_bytes(path.read_bytes() + b"\0")
    elif name == "manifest.json":
        shutil.copy(two.parent / "update-000000001" / name, path)
    else:
        other = two.parent / "update-000000001" / name
        kept = path.read_bytes()
        shutil.copy(other, path)
        other.write_bytes(kept)
    if damage == "swapped" and name != "manifest.json":
        with pytest.raises(CheckpointError) as caught:
            load_latest(two.parent)
        assert "update-000000001" in str(caught.value)
        assert "update-000000002" in str(caught.value)
        assert "restore one from a copy" in str(caught.value)
        return
    (warning,) = assert_loads(two.parent, 1)
    assert "PASSED OVER a damaged checkpoint" in warning
    assert "update-000000002" in warning
    assert sorted(entry.name for entry in two.parent.iterdir()) == ["update-000000001", "update-000000002"]


def test_every_flipped_bit_of_a_manifest_is_noticed(two: Path) -> None:
    sound = (two / "manifest.json").read_bytes()
    assert decode_manifest(sound).update == 2
    for position in range(len(sound)):
        for bit in range(8):
            flipped = bytearray(sound)
            flipped[position] ^= 1 << bit
            with pytest.raises(CheckpointError):
                decode_manifest(bytes(flipped))


def test_a_disk_that_lies_is_found_out_before_anything_is_pruned(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = CheckpointWriter(run.checkpoints, keep=1, token=1)
    save_update(writer, 1)

    def corrupt(directory: Path) -> None:
        if (directory / "learner.safetensors").exists():
            flip_bit(directory / "learner.safetensors", -1, 0)

    monkeypatch.setattr("whorl.runs.checkpoint.writing.fsync_directory", corrupt)
    with pytest.raises(CheckpointError, match=r"not saved: read back, learner\.safetensors does not match its SHA-256"):
        save_update(writer, 2)
    assert [entry.name for entry in run.checkpoints.iterdir()] == ["update-000000001"]
    assert assert_loads(run.checkpoints, 1) == []


def test_a_removal_that_stops_half_way_leaves_no_damaged_checkpoint(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = CheckpointWriter(run.checkpoints, keep=1, token=1)
    save_update(writer, 1)

    def remove_one_file(path: Path, ignore_errors: bool = False) -> None:
        (path / "learner.safetensors").unlink()
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("whorl.runs.checkpoint.writing.shutil.rmtree", remove_one_file)
    save_update(writer, 2)
    monkeypatch.undo()
    assert [candidate.path.name for candidate in find_checkpoints(run.checkpoints)] == ["update-000000002"]
    save_update(writer, 3)
    assert [entry.name for entry in run.checkpoints.iterdir()] == ["update-000000003"]


def test_no_commit_after_a_failed_part(run: RunDirectory) -> None:
    writer = CheckpointWriter(run.checkpoints, keep=1, token=1, faults=FaultPoints("arrays", "eio", 1))
    draft = writer.begin(1)
    with pytest.raises(CheckpointError):
        draft.write_arrays("learner", {"w": np.zeros(3)})
    with pytest.raises(CheckpointError):
        draft.commit(CheckpointMeta(0))
    assert list(run.checkpoints.iterdir()) == []
