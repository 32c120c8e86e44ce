"""Disks that fill up, checkpoints that are damaged, directories that are moved, shared or read-only."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from running import (
    LOCAL,
    SMALL,
    TRAIN,
    Trained,
    also_long,
    metric_updates,
    mounted,
    settings_of,
    tree,
    updates_saved,
    whorl,
)

import whorl as package
from whorl.errors import CheckpointError
from whorl.runs.checkpoint.faults import STAGES

QUICK_STAGES = ("arrays", "prune")


@pytest.mark.parametrize(
    "stage", [*QUICK_STAGES, *also_long(*(stage for stage in STAGES if stage not in QUICK_STAGES))]
)
def test_a_run_killed_in_the_middle_of_a_save_is_resumed_exactly(run_dir: Path, same_as: Trained, stage: str) -> None:
    fault = {"WHORL_FAULT_SAVE": f"{stage}:kill:5"}
    killed = whorl(*TRAIN, *SMALL, "--engine", "inline", "--run-dir", run_dir, environ=fault)
    assert killed.code == -signal.SIGKILL
    ended = whorl("resume", run_dir)
    assert (ended.code, ended.err, ended.warnings) == (0, "", [])
    same_as(run_dir)


@pytest.mark.parametrize("action", ["eio", *also_long("enospc")])
def test_a_failed_save_is_counted_told_and_followed_by_the_next(run_dir: Path, same_as: Trained, action: str) -> None:
    fault = {"WHORL_FAULT_SAVE": f"rename:{action}:3"}
    ended = whorl(*TRAIN, *LOCAL, "--run-dir", run_dir, environ=fault)
    assert (ended.code, ended.err) == (0, "")
    assert same_as(run_dir)["failed_saves"] == 1
    reason = {"eio": "Input/output error", "enospc": "No space left on device"}[action]
    (warning,) = ended.warnings
    assert f"{run_dir / 'checkpoints'}: checkpoint not saved: {reason}" in warning
    assert "the older ones are kept" in warning


def test_training_goes_on_while_the_disk_is_full(tmp_path: Path, same_as: Trained) -> None:
    with mounted(tmp_path / "disk", "size=4m") as disk:
        run_dir = disk / "run"
        with package.Trainer("ppo", "CartPole-v1", run_dir=run_dir, **settings_of("local")) as trainer:
            trainer.step(3)
            trainer.save()
            fill(disk / "ballast")
            trainer.step(4)
            with pytest.raises(CheckpointError, match=r"checkpoint not saved: No space left on device; the older"):
                trainer.save()
            assert updates_saved(run_dir)[-1] == 3
            (disk / "ballast").unlink()
            trainer.save()
            assert updates_saved(run_dir)[-1] == 7
            while not trainer.done:
                trainer.step()
        assert same_as(run_dir)["failed_saves"] >= 2


def test_a_disk_that_stays_full_is_a_failure_with_its_cause(tmp_path: Path, same_as: Trained) -> None:
    """All updates are done, but their end is nowhere: the run has failed, and can be resumed once there is space."""
    with mounted(tmp_path / "disk", "size=64k") as disk:
        run_dir = disk / "run"
        ended = whorl(*TRAIN, *SMALL, "--engine", "inline", "--run-dir", run_dir)
        assert ended.code == 1
        assert f"{run_dir / 'checkpoints'}: checkpoint not saved: No space left on device" in ended.complaint
        assert f"`whorl resume {run_dir}` goes on" in ended.complaint
        assert updates_saved(run_dir) == []
        subprocess.run(["mount", "-o", "remount,size=16m", str(disk)], check=True)
        assert whorl("resume", run_dir).code == 0
        same_as(run_dir)


def fill(path: Path) -> None:
    """Take all the space there is."""
    with path.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


def damage(checkpoint: Path, how: str) -> None:
    weights = checkpoint / "learner.safetensors"
    if how == "truncated":
        os.truncate(weights, weights.stat().st_size // 2)
    elif how == "flipped":
        data = bytearray(weights.read_bytes())
        data[-1] ^= 1
        weights.write_bytes(data)
    elif how == "missing":
        (checkpoint / "state.json").unlink()
    else:
        shutil.copy(checkpoint.with_name("update-000000005") / "learner.safetensors", weights)


@pytest.mark.parametrize("how", ["flipped", "missing", *also_long("truncated", "swapped")])
def test_a_damaged_newest_checkpoint_is_passed_over_loudly(stopped: Path, same_as: Trained, how: str) -> None:
    assert updates_saved(stopped) == [4, 5, 6]
    damage(stopped / "checkpoints" / "update-000000006", how)
    ended = whorl("resume", stopped)
    assert (ended.code, ended.err) == (0, "")
    (warning,) = ended.warnings
    assert f"PASSED OVER a damaged checkpoint, going on from {stopped}/checkpoints/update-000000005" in warning
    assert {"missing": "state.json is missing"}.get(how, "learner.safetensors ") in warning
    same_as(stopped)


def test_nothing_is_begun_from_scratch_when_all_are_damaged(stopped: Path) -> None:
    for path in (stopped / "checkpoints").iterdir():
        damage(path, "truncated")
    before = tree(stopped / "checkpoints")
    for command in ("resume", "eval"):
        ended = whorl(command, stopped)
        assert ended.code == 1
        assert "no checkpoint can be loaded" in ended.complaint
        assert "restore one from a copy, or train anew in another --run-dir" in ended.complaint
    assert tree(stopped / "checkpoints") == before


def test_a_second_run_in_the_same_directory_is_refused_and_told_who_is_there(run_dir: Path, same_as: Trained) -> None:
    with package.Trainer("ppo", "CartPole-v1", run_dir=run_dir, **settings_of("inline")) as trainer:
        trainer.step(2)
        trainer.save()
        busy = whorl("resume", run_dir)
        assert busy.code == 2
        assert f"the run is held by pid {os.getpid()} on " in busy.complaint
        assert "stop that run first" in busy.complaint
        occupied = whorl(*TRAIN, *SMALL, "--run-dir", run_dir)
        assert occupied.code == 2
        assert f"holds a run already; `whorl resume {run_dir}` goes on with it" in occupied.complaint
        assert whorl("eval", run_dir, "--episodes", "1").code == 0  # looking is free
        while not trainer.done:
            trainer.step()
    same_as(run_dir)


def test_the_lock_of_a_dead_process_is_no_obstacle(stopped: Path, same_as: Trained) -> None:
    holder = json.loads((stopped / "lock").read_text())
    (stopped / "lock").write_text(json.dumps({**holder, "pid": 999_999_999, "token": 41}))
    assert whorl("resume", stopped).code == 0
    same_as(stopped)
    manifest = max((stopped / "checkpoints").iterdir()) / "manifest.json"
    assert json.loads(manifest.read_text())["token"] == 42


def test_a_moved_run_goes_on_and_a_read_only_one_can_be_looked_at(
    stopped: Path, tmp_path: Path, same_as: Trained
) -> None:
    with mounted(tmp_path / "archive", "size=16m") as archive:
        kept = Path(shutil.copytree(stopped, archive / "run"))
        subprocess.run(["mount", "-o", "remount,ro", str(archive)], check=True)
        before = tree(kept)
        assert whorl("eval", kept, "--episodes", "2").code == 0
        refused = whorl("resume", kept)
        assert refused.code == 2
        assert "cannot take the run for writing: Read-only file system; copy it to a place you can" in refused.complaint
        assert tree(kept) == before
    moved = stopped.rename(tmp_path / "moved")
    assert whorl("resume", moved).code == 0
    same_as(moved)


@pytest.mark.parametrize(
    ("changes", "actors"), [(("--engine", "local", "--actors", "4"), 4), (("--envs-per-actor", "8"), 1)]
)
def test_a_run_goes_on_with_its_environments_shared_out_differently(
    stopped: Path, same_as: Trained, changes: tuple[str, ...], actors: int
) -> None:
    ended = whorl("resume", stopped, *changes)
    assert (ended.code, ended.err) == (0, "")
    told = "\n".join(ended.warnings)
    assert "resumed with another resources.actors: " in told
    assert "resumed with another resources.envs_per_actor: " in told
    assert ("resumed with another engine.name: " in told) == ("--engine" in changes)
    same_as(stopped)
    assert f"\nactors = {actors}\n" in (stopped / "config.toml").read_text()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (("--actors", "3"), "the run has 8 environments and cannot go on with another number"),
        (("--actors", "4", "--envs-per-actor", "4"), "actors times envs-per-actor must be 8"),
        (("--learners", "2"), "cuts each batch into 1 (resources.shards)"),
    ],
)
def test_what_would_change_the_result_is_refused(stopped: Path, changes: tuple[str, ...], expected: str) -> None:
    before = tree(stopped)
    ended = whorl("resume", stopped, *changes)
    assert ended.code == 2
    assert expected in ended.complaint
    assert tree(stopped) == before


def test_a_checkpoint_of_a_newer_format_is_refused_and_not_passed_over(stopped: Path) -> None:
    manifest = stopped / "checkpoints" / "update-000000006" / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 2, "whorl": "9.0"}))
    before = tree(stopped / "checkpoints")
    ended = whorl("resume", stopped)
    assert ended.code == 1
    assert "written in checkpoint format 2 by whorl 9.0" in ended.complaint
    assert "install that version to go on" in ended.complaint
    assert tree(stopped / "checkpoints") == before


def test_a_tiny_dev_shm_does_not_matter(run_dir: Path, same_as: Trained) -> None:
    """All shared memory is anonymous."""
    tiny = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=64k tmpfs /dev/shm && exec "$@"', "sh")
    if subprocess.run([*tiny, "true"], capture_output=True).returncode:
        pytest.skip("no mount namespace can be made here")
    assert whorl(*TRAIN, *LOCAL, "--run-dir", run_dir, prefix=tiny).code == 0
    same_as(run_dir)


def test_metrics_survive_a_kill_up_to_the_last_checkpoints(run_dir: Path) -> None:
    """They are handed to the operating system with every checkpoint that is known to be whole."""
    fault = {"WHORL_FAULT": "learner:0:update=12:kill"}
    killed = whorl(*TRAIN, *SMALL, "--engine", "inline", "--run-dir", run_dir, environ=fault)
    assert killed.code == -signal.SIGKILL
    updates = metric_updates(run_dir)
    assert updates == list(range(1, updates[-1] + 1))
    assert updates[-1] >= 9
