"""Several machines on one, each with a Ray node in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from network import Network, require_network
from ray_nodes import require_ray
from whorl.engines.ray.private import QUICK_HEALTH_CHECKS

PORT = 6399
START_S = 80


class Machines:
    """A head (number 0) and others, each with a Ray node. The driver runs on the head: ``command``."""

    def __init__(self, count: int) -> None:
        require_ray()
        require_network()
        self._nodes: list[subprocess.Popen[bytes]] = []
        self.folder = Path(tempfile.mkdtemp(prefix="wnet-", dir="/tmp"))
        self._network = Network(count)
        self.address = f"{self._network.addresses[0]}:{PORT}"
        try:
            self._start_nodes()
        except BaseException:
            self.end()
            raise

    def _start_nodes(self) -> None:
        from whorl.engines.ray.private import make_token

        make_token(self.folder / "token")
        (self.folder / "ray").mkdir()
        for number, address in enumerate(self._network.addresses):
            place = "head" if number == 0 else "far"
            words = ["start", "--block", "--node-ip-address", address, "--num-cpus", "4"]
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
        return self._network.on(number, sys.executable, *words)

    @property
    def settings(self) -> dict[str, Any]:
        """Of ``EngineConfig``."""
        return {"address": self.address, "token_file": str(self.folder / "token")}

    @property
    def cables(self) -> dict[str, list[str]]:
        """By a machine's address, the command that cuts or mends its cable; ``up`` or ``down`` comes after it."""
        return {address: self._network.cable(number) for number, address in enumerate(self._network.addresses)}

    def end(self) -> None:
        """The power of every machine is cut."""
        self._network.end()
        for node in self._nodes:
            node.wait(10)
        shutil.rmtree(self.folder, ignore_errors=True)
