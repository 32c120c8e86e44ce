"""What the tests of runs share: a run directory, and a file system that is really small."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from whorl.runs.directory import RunDirectory

from .saving import mount_tmpfs


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    directory = RunDirectory.create(tmp_path / "run", "ppo", "CartPole-v1")
    directory.write_config("seed = 1\n")
    return directory


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 1 MiB."""
    path = tmp_path / "small"
    mount_tmpfs(path, "size=1m")
    try:
        yield path
    finally:
        subprocess.run(["umount", str(path)], check=True)
