"""Real MPI jobs: ``mpiexec`` of the installed wheel, with more ranks than this machine may have cores."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from whorl.envs.launchers import without_launcher

Job = Callable[..., subprocess.CompletedProcess[str]]


def find_mpiexec() -> str:
    """The launcher beside this Python, or on PATH."""
    found = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    try:
        import mpi4py  # noqa: F401
    except ImportError:
        found = None
    if found is None:
        assert not os.environ.get("CI"), "in CI whorl[mpi] is installed"
        pytest.skip("needs MPI: pip install 'whorl[mpi]'")
    return found


@pytest.fixture(scope="session")
def mpiexec() -> str:
    return find_mpiexec()


@pytest.fixture
def ranks(mpiexec: str) -> Job:
    """Run this Python with these arguments on so many ranks."""

    def run(count: int, *arguments: str, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        environment = {**without_launcher(os.environ), "OMP_NUM_THREADS": "1"}
        command = [mpiexec, "-n", str(count), sys.executable, *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False)

    return run
