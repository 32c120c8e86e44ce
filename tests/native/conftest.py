"""Builds the native programs once for all workers, and runs them as a user does."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from remote.conftest import folder, serve, serve_process  # noqa: F401

ROOT = Path(__file__).parents[2]
NATIVE = ROOT / "src" / "whorl" / "native"
BUILD_TIMEOUT_S = 900
"""Generous: a machine may be busy with something else."""


def missing() -> str:
    """What a build here would lack, in one line."""
    tools = [name for name in ("g++", "gfortran", "cmake") if shutil.which(name) is None]
    has_zmq = any(Path(place, "zmq.h").exists() for place in ("/usr/include", "/usr/local/include"))
    lacking = [*tools, *([] if has_zmq else ["libzmq's headers"])]
    return f"{', '.join(lacking)} not here: run tools/packages.sh" if lacking else ""


def require_compilers() -> None:
    """Skips where the programs cannot be built; in CI they must be."""
    if words := missing():
        if "CI" in os.environ:
            pytest.fail(words, pytrace=False)
        pytest.skip(words)


def build(where: Path, *options: str, targets: tuple[str, ...] = (), flags: str = "-O1") -> Path:
    """Configure and build, once for all workers: the one that holds the lock does it, the others wait."""
    require_compilers()
    where.mkdir(parents=True, exist_ok=True)
    with (where / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (where / "built").exists():
            configure = ["cmake", "-S", NATIVE, "-B", where, "-DCMAKE_BUILD_TYPE=None", f"-DCMAKE_CXX_FLAGS={flags}"]
            _run(*configure, *options)
            _run("cmake", "--build", where, "--parallel", "2", *(f"--target={target}" for target in targets))
            (where / "built").touch()
    return where


def _run(*command: str | Path) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=BUILD_TIMEOUT_S)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all workers of this run."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def programs(shared_folder: Path) -> Path:
    """Where glider, tank and play are."""
    return build(shared_folder / "native")


class Program:
    """A simulator that serves itself."""

    def __init__(self, *command: str | Path) -> None:
        self.process = subprocess.Popen(
            list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.announcement = self.process.stdout.readline()
        self.address = self.announcement.partition(" at ")[2].split(" ")[0].strip()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=20)

    def end(self) -> tuple[int, str, str]:
        """Ask it to stop: exit code, and what it says."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            said, complaints = self.process.communicate(timeout=60)
        except ValueError:  # it was killed, and its words are read
            said = complaints = ""
        finally:
            self.process.kill()
            self.process.wait()
        return self.process.returncode, said, complaints


@pytest.fixture
def start() -> Iterator[Callable[..., Program]]:
    with contextlib.ExitStack() as stack:

        def run(*command: str | Path) -> Program:
            program = Program(*command)
            stack.callback(program.end)
            return program

        yield run
