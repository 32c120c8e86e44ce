"""Studies through the public command, in processes that can be struck from outside."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

if not os.environ.get("CI"):  # there, the extra is installed
    pytest.importorskip("matplotlib", reason="whorl[plot] is not installed")

SOURCE = Path(__file__).parents[2] / "src"
Begin = Callable[..., subprocess.Popen[str]]
Study = Callable[..., tuple[int, str, str]]


@pytest.fixture
def begin(tmp_path: Path) -> Begin:
    """Starts ``whorl study ...`` in the test's own folder."""

    def start(*arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "whorl", "study", *map(str, arguments)]
        environment = {**os.environ, "PYTHONPATH": f"{SOURCE}"}
        return subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    return start


@pytest.fixture
def whorl_study(begin: Begin, request: pytest.FixtureRequest) -> Study:
    """Runs it to its end: (exit code, output, errors)."""
    limit_s = 3500 if request.node.get_closest_marker("verify") else 110

    def run(*arguments: object) -> tuple[int, str, str]:
        process = begin(*arguments)
        try:
            out, err = process.communicate(timeout=limit_s)
        finally:
            process.kill()
        return process.returncode, out, err

    return run
