"""A checkpoint from a stranger: refused, with nothing run, followed or allocated."""

from __future__ import annotations

import json
import os
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from whorl.errors import CheckpointError
from whorl.runs.checkpoint import CheckpointWriter, load
from whorl.runs.checkpoint.format import _checksum
from whorl.runs.checkpoint.tensors import hash_descriptor
from whorl.runs.directory import RunDirectory

from .saving import save_update


@pytest.fixture
def victim(run: RunDirectory) -> Path:
    return save_update(CheckpointWriter(run.checkpoints, keep=1, token=1), 1)


def forge(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a manifest and give it a right checksum, as an attacker would."""
    manifest = json.loads((path / "manifest.json").read_text())
    del manifest["sha256"]
    change(manifest)
    (path / "manifest.json").write_text(json.dumps({**manifest, "sha256": _checksum(manifest)}))


def list_file(path: Path, name: str) -> None:
    descriptor = os.open(path / name, os.O_RDONLY)
    size, sha256 = hash_descriptor(descriptor)
    os.close(descriptor)
    forge(path, lambda manifest: manifest["files"].update({name: {"size_bytes": size, "sha256": sha256}}))


def replace_file(path: Path, name: str, data: bytes) -> None:
    (path / name).write_bytes(data)
    list_file(path, name)


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return (os._exit, (66,))


def test_an_unlisted_pickle(victim: Path) -> None:
    (victim / "optimizer.pkl").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(CheckpointError, match=r"holds 'optimizer\.pkl', which its manifest does not list"):
        load(victim)


def test_a_listed_pickle(victim: Path) -> None:
    replace_file(victim, "optimizer.pkl", pickle.dumps(Bomb()))
    with pytest.raises(CheckpointError, match=r"'optimizer\.pkl' is not the name of a checkpoint's file"):
        load(victim)


def test_a_pickle_that_calls_itself_safetensors(victim: Path) -> None:
    replace_file(victim, "learner.safetensors", pickle.dumps(Bomb()))
    with pytest.raises(CheckpointError, match="is not a safetensors file"):
        load(victim)


@pytest.mark.parametrize(
    "name", ["../../lock", "/etc/passwd.json", "a/b.json", "..", "", "x.json\0", ".x.json", "X.JSON", "manifest.json"]
)
def test_names_that_lead_elsewhere(victim: Path, name: str) -> None:
    part = {"size_bytes": 1, "sha256": "0" * 64}
    forge(victim, lambda manifest: manifest["files"].update({name: part}))
    with pytest.raises(CheckpointError, match="is not the name of a checkpoint's file"):
        load(victim)


def test_links(victim: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    (victim / "state.json").rename(secret)
    (victim / "state.json").symlink_to(secret)
    with pytest.raises(CheckpointError, match=r"state\.json cannot be opened"):
        load(victim)
    (tmp_path / "link").symlink_to(victim)
    with pytest.raises(CheckpointError, match="is a symbolic link"):
        load(tmp_path / "link")


def test_a_fifo_does_not_hang(victim: Path) -> None:
    (victim / "state.json").unlink()
    os.mkfifo(victim / "state.json")
    with pytest.raises(CheckpointError, match="not a plain file"):
        load(victim)


@pytest.mark.parametrize(
    "header",
    [
        struct.pack("<Q", 1 << 62),
        struct.pack("<Q", 17 << 20),
        struct.pack("<Q", 0),
        b"\x01",
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 4) + b"\xff\xfe{}",
    ],
)
def test_headers(victim: Path, header: bytes) -> None:
    replace_file(victim, "learner.safetensors", header)
    with pytest.raises(CheckpointError, match=r"learner\.safetensors.* is not (a safetensors file|JSON)"):
        load(victim)


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "O", "shape": [1], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [1 << 40, 1 << 40], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [2], "data_offsets": [0, 1 << 50]},
        {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]},
        {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]},
        {"dtype": ["F32"], "shape": [2], "data_offsets": [0, 8]},
        "F32",
    ],
)
def test_array_entries(victim: Path, entry: object) -> None:
    text = json.dumps({"w": entry}).encode()
    replace_file(victim, "learner.safetensors", struct.pack("<Q", len(text)) + text + bytes(8))
    with pytest.raises(CheckpointError, match=r"learner\.safetensors"):
        load(victim)


def test_deep_json(victim: Path) -> None:
    replace_file(victim, "state.json", b"[" * 100_000)
    with pytest.raises(CheckpointError, match=r"state\.json is nested deeper than 64"):
        load(victim)
    (victim / "manifest.json").write_bytes(b'{"a":' * 100_000)
    with pytest.raises(CheckpointError, match=r"manifest\.json is nested deeper than 64"):
        load(victim)


def test_brackets_in_strings_are_no_nesting(victim: Path) -> None:
    replace_file(victim, "state.json", json.dumps(["[" * 1000, '\\"' + "{" * 1000]).encode())
    assert load(victim).values["state"] == ["[" * 1000, '\\"' + "{" * 1000]


def test_long_unclosed_strings_take_no_time(victim: Path) -> None:
    replace_file(victim, "state.json", b'["' + b'\\"' * 1_000_000)
    with pytest.raises(CheckpointError, match="is not JSON"):
        load(victim)


def test_sparse_giants(victim: Path) -> None:
    os.truncate(victim / "manifest.json", 1 << 40)
    with pytest.raises(CheckpointError, match="larger than"):
        load(victim)


@pytest.mark.parametrize(
    "change",
    [
        {"update": -1},
        {"update": "1"},
        {"token": 1.5},
        {"files": []},
        {"files": {"state.json": "x"}},
        {"format": 0},
        {"format": True},
        {"labels": {"a": {"b": "c"}}},
    ],
)
def test_manifests_of_wrong_types(victim: Path, change: dict[str, Any]) -> None:
    forge(victim, lambda manifest: manifest.update(change))
    with pytest.raises(CheckpointError, match="manifest"):
        load(victim)
