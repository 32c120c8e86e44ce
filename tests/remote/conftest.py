"""Servers for the tests: in a thread where only messages matter, as a process where it must be killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from whorl.config.schema import EnvConfig
from whorl.envs.remote.server import EnvServer

ROOT = Path(__file__).parents[2]
Serve = Callable[..., EnvServer]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that sockets may be in."""
    made = tmp_path / "s"
    made.mkdir(mode=0o700)
    return made


@pytest.fixture
def serve(folder: Path) -> Iterator[Serve]:
    """Serves an environment in a thread of this process; the server is stopped at the end."""
    with contextlib.ExitStack() as stack:
        numbers = iter(range(100))

        def start(env: str, copies: int = 8, bind: str = "", **options: Any) -> EnvServer:
            kwargs = options.pop("kwargs", {})
            config = EnvConfig(id=env, kwargs=kwargs, restore=options.pop("restore", "auto"))
            address = bind or f"ipc://{folder / f'{next(numbers)}.sock'}"
            server = stack.enter_context(EnvServer(config, address, copies, **options))
            thread = threading.Thread(target=server.run)
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.stop)
            return server

        yield start


class ServerProcess:
    """``whorl env serve`` as a user runs it."""

    def __init__(self, env: str, address: str, *arguments: str, pythonpath: str = "") -> None:
        command = [sys.executable, "-m", "whorl", "env", "serve", env, "--bind", address, *arguments]
        paths = os.pathsep.join(filter(None, [str(ROOT / "src"), pythonpath]))
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": paths}
        )
        assert self.process.stdout is not None
        self.announcement = self.process.stdout.readline()

    def kill(self) -> None:
        """As the kernel does when memory is short."""
        self.process.kill()
        self.process.wait(20)

    def end(self) -> tuple[int, str]:
        """Ask it to stop: exit code, and what it says of itself."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            said, _ = self.process.communicate(timeout=60)
        finally:
            self.process.kill()
            self.process.wait()
        return self.process.returncode, said


@pytest.fixture
def serve_process(folder: Path) -> Iterator[Callable[..., ServerProcess]]:
    with contextlib.ExitStack() as stack:

        def start(env: str, address: str, *arguments: str, pythonpath: str = "") -> ServerProcess:
            server = ServerProcess(env, address, *arguments, pythonpath=pythonpath)
            stack.callback(server.end)
            return server

        yield start
