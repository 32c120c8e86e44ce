"""Small studies, through the public command, in processes that can be struck from outside."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from whorl.config.toml import write_toml

if not os.environ.get("CI"):  # there, the extra is installed
    pytest.importorskip("optuna", reason="whorl[tune] is not installed")

LONG_S = 900
"""For a study of the long tests, also on a machine that is busy."""
SOURCE = Path(__file__).parents[2] / "src"
SMALL = {
    "agent": {"name": "ppo", "rows": 32, "epochs": 2, "learning_rate": {"choices": [0.0003, 0.001, 0.003]}},
    "env": {"id": "CartPole-v1", "max_episode_steps": 100},
    "resources": {"envs_per_actor": 8},
    "run": {"steps": 1500, "checkpoint_every_s": 0.0},
}
"""Six updates, a checkpoint after each."""


@pytest.fixture
def small() -> dict[str, Any]:
    """The tables of a small study, to change."""
    return {name: dict(table) for name, table in SMALL.items()}


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Puts tables into a file to search over."""

    def write_file(tables: Mapping[str, Any], name: str = "small.toml") -> Path:
        path = tmp_path / name
        path.write_text(write_toml(tables))
        return path

    return write_file


@pytest.fixture
def begin(tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """Starts ``whorl tune ...`` in the test's own folder, where a trial's function may be."""

    def start(*arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "whorl", "tune", *map(str, arguments)]
        environment = {**os.environ, "PYTHONPATH": f"{SOURCE}"}
        return subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    return start


@pytest.fixture
def whorl_tune(
    begin: Callable[..., subprocess.Popen[str]], request: pytest.FixtureRequest
) -> Callable[..., tuple[int, str, str]]:
    """Runs it to its end: (exit code, output, errors)."""
    timeout_s = LONG_S if request.node.get_closest_marker("verify") else 100

    def run(*arguments: object) -> tuple[int, str, str]:
        process = begin(*arguments)
        out, err = process.communicate(timeout=timeout_s)
        return process.returncode, out, err

    return run
