"""Several machines on one: network namespaces that see each other through a switch, each with a Ray node in it.

Needs root and ``ip`` (iproute2). A link is cut by taking the machine's end of the cable at the switch down.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from ray_nodes import require_ray
from whorl.engines.ray.private import QUICK_HEALTH_CHECKS

PORT = 6399
START_S = 80


def require_machines() -> None:
    """Skip where there are no namespaces to be had, but not in CI."""
    require_ray()
    if os.geteuid() != 0 or shutil.which("ip") is None:
        assert "CI" not in os.environ, "CI is root and has iproute2"
        pytest.skip("needs root and iproute2 for network namespaces")


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=20)


class Machines:
    """A head (number 0) and others, each with a Ray node. The driver runs on the head: ``command``."""

    def __init__(self, count: int) -> None:
        require_machines()
        self._name = f"w{os.getpid() % 100_000}"
        self._names = [f"{self._name}m{number}" for number in range(count)]
        self._nodes: list[subprocess.Popen[bytes]] = []
        self.folder = Path(tempfile.mkdtemp(prefix="wnet-", dir="/tmp"))
        self.address = f"{self._address(0)}:{PORT}"
        try:
            self._wire()
            self._start_nodes()
        except BaseException:
            self.end()
            raise

    def _address(self, number: int) -> str:
        return f"10.77.7.{number + 1}"

    def _wire(self) -> None:
        switch = self._name
        ip("netns", "add", switch)
        ip("-n", switch, "link", "add", "hub", "type", "bridge")
        ip("-n", switch, "link", "set", "hub", "up")
        for number, name in enumerate(self._names):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", switch, "link", "add", f"p{number}", "type", "veth", "peer", "name", "net0", "netns", name)
            ip("-n", switch, "link", "set", f"p{number}", "master", "hub", "up")
            ip("-n", name, "addr", "add", f"{self._address(number)}/24", "dev", "net0")
            ip("-n", name, "link", "set", "net0", "up")

    def _start_nodes(self) -> None:
        from whorl.engines.ray.private import make_token

        make_token(self.folder / "token")
        (self.folder / "ray").mkdir()
        for number in range(len(self._names)):
            place = "head" if number == 0 else "far"
            words = ["start", "--block", "--node-ip-address", self._address(number), "--num-cpus", "4"]
            words += ["--resources", f'{{"{place}": 2}}', "--object-store-memory", str(80 * 2**20)]
            if number == 0:
                words += [
                    "--head",
                    "--port",
                    str(PORT),
                    "--include-dashboard=false",
                    "--temp-dir",
                    str(self.folder / "r"),
                ]
            else:
                words += ["--address", self.address]
            with (self.folder / f"{number}.log").open("wb") as log:
                command = self.command(number, "-m", "ray.scripts.scripts", *words)
                node = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environ, start_new_session=True
                )
            self._nodes.append(node)
            self._wait_for(number)  # those of one folder do not begin at the same time

    def _wait_for(self, number: int) -> None:
        log, end = self.folder / f"{number}.log", time.monotonic() + START_S
        while b"Ray runtime started" not in log.read_bytes():
            assert time.monotonic() < end, log.read_text()[-2000:]
            assert self._nodes[number].poll() is None, log.read_text()[-2000:]
            time.sleep(0.1)

    @property
    def environ(self) -> dict[str, str]:
        """Of every process that speaks to Ray."""
        quick = {f"RAY_{name}": str(value) for name, value in QUICK_HEALTH_CHECKS.items()}
        quick["RAY_raylet_start_wait_time_s"] = str(START_S)  # on a machine that others use as well
        token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(self.folder / "token")}
        return {
            **os.environ,
            **quick,
            **token,
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_worker_niceness": "0",
            "RAY_TMPDIR": str(self.folder),
        }

    def command(self, number: int, *words: str) -> list[str]:
        """Python on one of the machines."""
        return ["ip", "netns", "exec", self._names[number], sys.executable, *words]

    @property
    def settings(self) -> dict[str, Any]:
        """Of ``EngineConfig``."""
        return {"address": self.address, "token_file": str(self.folder / "token")}

    @property
    def cables(self) -> dict[str, list[str]]:
        """By a machine's address, the command that cuts or mends its cable; ``up`` or ``down`` comes after it."""
        numbers = range(len(self._names))
        return {self._address(number): ["ip", "-n", self._name, "link", "set", f"p{number}"] for number in numbers}

    def end(self) -> None:
        """The power of every machine is cut."""
        for name in (*self._names, self._name):
            inside = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True).stdout.split()
            for pid in inside:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
        for node in self._nodes:
            node.wait(10)
        shutil.rmtree(self.folder, ignore_errors=True)
