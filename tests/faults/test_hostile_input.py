"""Typos and attacks: refused in one line, with the documented exit code, before anything runs."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from running import TRAIN, tree, whorl


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((*TRAIN, "--set", "agent.learning_rte=0.1"), "did you mean agent.learning_rate?"),
        ((*TRAIN, "--set", "agent.learning_rate=nan"), "expected a finite number"),
        ((*TRAIN, "--actors", "-4"), "--actors: expected an integer, at least 1; got -4"),
        (("train", "ppo", "CartPoel-v1"), "did you mean CartPole-v1"),
        (("train", "ppo", "whorl/Crash-v0", "--set", "env.kwargs.hwo=kill"), "hwo"),
        ((*TRAIN, "--actors", "3", "--learners", "2"), "3 actors cannot be shared out evenly over 2 learners"),
        ((*TRAIN, "--engine", "inline", "--set", "env.hosting=process"), "use --engine local"),
    ],
)
def test_typos_and_impossible_wishes_leave_nothing_behind(
    tmp_path: Path, arguments: tuple[str, ...], expected: str
) -> None:
    ended = whorl(*arguments, "--run-dir", tmp_path / "run")
    assert (ended.code, ended.out) == (2, "")
    assert expected in ended.complaint
    assert not (tmp_path / "run").exists()


def test_a_fault_point_with_a_typo_is_refused(tmp_path: Path) -> None:
    ended = whorl(*TRAIN, "--run-dir", tmp_path / "run", environ={"WHORL_FAULT": "actor:1:env_step=7:kil"})
    assert ended.code == 2
    assert "is not of the form role:index:point=N:action" in ended.complaint
    assert not (tmp_path / "run").exists()


ATTACKED = Path(tempfile.gettempdir()) / f"attacked-{os.getpid()}"


class Attack:
    """Unpickling it would make a file."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return Path.touch, (ATTACKED,)


def forge(checkpoint: Path, name: str, content: bytes) -> None:
    """A file with a manifest that vouches for it."""
    (checkpoint / name).write_bytes(content)
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    manifest["files"][name] = {"size_bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    sign(checkpoint, manifest)


def sign(checkpoint: Path, manifest: dict[str, Any]) -> None:
    manifest.pop("sha256", None)
    plain = json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()
    (checkpoint / "manifest.json").write_text(json.dumps({**manifest, "sha256": hashlib.sha256(plain).hexdigest()}))


def pickled_weights(checkpoint: Path) -> None:
    forge(checkpoint, "learner.safetensors", pickle.dumps(Attack()))


def pickle_beside(checkpoint: Path) -> None:
    forge(checkpoint, "learner.pkl", pickle.dumps(Attack()))


def traversal(checkpoint: Path) -> None:
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    manifest["files"]["../../../config.toml"] = manifest["files"].pop("state.json")
    sign(checkpoint, manifest)


def linked_weights(checkpoint: Path) -> None:
    weights = checkpoint / "learner.safetensors"
    weights.rename(checkpoint.parent.parent / f"elsewhere-{checkpoint.name}")
    weights.symlink_to(checkpoint.parent.parent / f"elsewhere-{checkpoint.name}")


def linked_directory(checkpoint: Path) -> None:
    checkpoint.rename(checkpoint.parent.parent / f"elsewhere-{checkpoint.name}")
    checkpoint.symlink_to(checkpoint.parent.parent / f"elsewhere-{checkpoint.name}")


def endless_header(checkpoint: Path) -> None:
    forge(checkpoint, "learner.safetensors", (2**62).to_bytes(8, "little") + b"{}")


def deep_values(checkpoint: Path) -> None:
    forge(checkpoint, "state.json", b"[" * 100_000 + b"]" * 100_000)


ATTACKS = {
    pickled_weights: "learner.safetensors",
    pickle_beside: "'learner.pkl' is not the name of a checkpoint's file",
    traversal: "'../../../config.toml' is not the name of a checkpoint's file",
    linked_weights: "learner.safetensors cannot be opened",
    linked_directory: "is a symbolic link, which is not followed",
    endless_header: "learner.safetensors",
    deep_values: "state.json is nested deeper than 64",
}


@pytest.fixture
def attacked(stopped: Path) -> Path:
    """A run whose checkpoints are one attack each."""
    folder = stopped / "checkpoints"
    sound = Path(shutil.move(folder / "update-000000006", stopped / "sound"))
    for path in list(folder.iterdir()):
        shutil.rmtree(path)
    for number, attack in enumerate(ATTACKS):
        attack(Path(shutil.copytree(sound, folder / f"update-{number:09d}")))
    return stopped


def test_checkpoints_made_to_attack_are_refused(attacked: Path) -> None:
    before = tree(attacked / "checkpoints")
    ended = whorl("resume", attacked)
    assert ended.code == 1
    assert "no checkpoint can be loaded" in ended.complaint
    assert tree(attacked / "checkpoints") == before
    for number, expected in reversed(list(enumerate(ATTACKS.values()))):
        ended = whorl("eval", attacked)
        assert ended.code == 1
        assert "no checkpoint can be loaded" in ended.complaint
        assert f"update-{number:09d}: {expected}" in ended.complaint
        (attacked / "checkpoints" / f"update-{number:09d}").rename(attacked / f"seen-{number}")  # on to the next
    assert not ATTACKED.exists()


@pytest.mark.parametrize("engine", ["inline", "local"])
def test_a_checkpoint_that_is_whole_and_of_something_else_is_named(stopped: Path, engine: str) -> None:
    for checkpoint in (stopped / "checkpoints").iterdir():
        forge(checkpoint, "state.json", b"{}")
    ended = whorl("resume", stopped, "--engine", engine)
    assert ended.code == 1
    assert "update-000000006: whole, but not what this run needs" in ended.complaint


def test_a_policy_is_not_cut_out_of_other_weights(stopped: Path) -> None:
    config = (stopped / "config.toml").read_text()
    (stopped / "config.toml").write_text(config.replace("hidden = [64, 64]", "hidden = [32, 32]"))
    ended = whorl("eval", stopped)
    assert ended.code == 1
    assert "bytes, and by config.toml they have" in ended.complaint


def test_a_file_in_the_place_of_the_logs_is_named(stopped: Path) -> None:
    shutil.rmtree(stopped / "logs")
    (stopped / "logs").touch()
    ended = whorl("resume", stopped, "--engine", "local")
    assert ended.code == 2
    assert "logs: cannot keep logs there: File exists" in ended.complaint


@pytest.mark.parametrize(
    ("content", "expected"),
    [(b"", "empty"), (b"\xff\xfe\x00", "not a text file"), (b"x" * 2_000_000, "larger than"), (b"[agent\n", "line 1")],
)
def test_a_damaged_config_of_a_run_is_named(stopped: Path, content: bytes, expected: str) -> None:
    (stopped / "config.toml").write_bytes(content)
    ended = whorl("resume", stopped)
    assert ended.code == 2
    assert f"{stopped / 'config.toml'}: " in ended.complaint
    assert expected in ended.complaint
