"""Saving and loading in one line, and mounting small file systems."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from whorl.runs.checkpoint import CheckpointMeta, CheckpointWriter, load_latest


def save_update(writer: CheckpointWriter, update: int, size: int = 8) -> Path:
    draft = writer.begin(update)
    draft.write_arrays("learner", {"weights": np.full(size, update, np.float32), "count": np.array(update)})
    draft.write_arrays("ledger-0", {"episode": np.arange(4) + update})
    draft.write_json("state", {"update": update, "best": 1.5})
    return draft.commit(CheckpointMeta(env_steps=update * 10))


def assert_loads(directory: Path, update: int) -> list[str]:
    """The newest one is ``update`` and holds its values; returns the warnings."""
    checkpoint = load_latest(directory)
    assert checkpoint is not None
    assert checkpoint.update == update
    assert checkpoint.env_steps == update * 10
    assert checkpoint.arrays["learner"]["weights"].tolist()[:8] == [update] * 8
    assert checkpoint.arrays["ledger-0"]["episode"].tolist() == [update, update + 1, update + 2, update + 3]
    assert checkpoint.values["state"] == {"update": update, "best": 1.5}
    return checkpoint.warnings


def mount_tmpfs(path: Path, *options: str) -> None:
    path.mkdir(exist_ok=True)
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small tmpfs")
    command = ["mount", "-t", "tmpfs", "-o", ",".join(("nosuid", *options)), "tmpfs", str(path)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a tmpfs is not allowed here")
