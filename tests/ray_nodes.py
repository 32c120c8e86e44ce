"""A Ray cluster of several nodes on this machine, in a process of its own.

    python ray_nodes.py FOLDER NODES CPUS GPUS

prints its address and the pid of each node's raylet as a line of JSON. Each line of its standard input adds a node,
of which it prints the same. It ends with its standard input.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

import leakcheck

START_S = 60.0


def require_ray() -> None:
    """Skip a test where Ray is not installed, but not in CI."""
    if importlib.util.find_spec("ray") is None:
        assert "CI" not in os.environ, "CI installs whorl[ray]"
        pytest.skip("needs Ray: pip install 'whorl[ray]'")


class RayNodes:
    """The cluster, as the tests see it."""

    def __init__(self, nodes: int = 3, cpus: int = 8, gpus: int = 0) -> None:
        require_ray()
        self.folder = Path(tempfile.mkdtemp(prefix="wray-", dir="/tmp"))
        environ = {name: text for name, text in os.environ.items() if name != leakcheck.TAG_VARIABLE}
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(self.folder), str(nodes), str(cpus), str(gpus)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environ,
                start_new_session=True,
            )
        leakcheck.KEPT.add(self._process.pid)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self.end()
            pytest.fail("the Ray cluster of the tests did not start; its log is above")
        said = json.loads(line)
        self.address: str = said["address"]
        self.raylets: dict[str, int] = said["raylets"]
        """Pid by node id."""
        self.gcs: int = said["gcs"]

    def add(self) -> str:
        """One more node; returns its id."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"add\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, (self.folder / "log").read_text()[-2000:]
        added: dict[str, int] = json.loads(line)
        self.raylets |= added
        return next(iter(added))

    def lose(self, node: str) -> None:
        """A machine that loses its power, as far as one process can."""
        os.kill(self.raylets.pop(node), signal.SIGKILL)

    @property
    def settings(self) -> dict[str, Any]:
        """Of ``EngineConfig``."""
        return {"address": self.address, "token_file": str(self.folder / "token")}

    def end(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        leakcheck.KEPT.discard(self._process.pid)
        if self._process.returncode:
            print((self.folder / "log").read_text()[-2000:])
        shutil.rmtree(self.folder, ignore_errors=True)


def main() -> None:
    from whorl.engines.ray import private

    folder, (nodes, cpus, gpus) = Path(sys.argv[1]), map(int, sys.argv[2:])
    private.make_token(folder / "token")
    private.set_environment(str(folder / "token"))
    os.environ["RAY_TMPDIR"] = str(folder)  # or it writes into /tmp/ray, which is everybody's
    (folder / "ray").mkdir()
    from ray.cluster_utils import Cluster

    private.stay_on_loopback()
    common = {
        "num_cpus": cpus,
        "num_gpus": gpus,
        "node_ip_address": "127.0.0.1",
        "temp_dir": str(folder / "r"),
        "object_store_memory": 80 * 2**20,
        "include_log_monitor": False,
        "resources": {"slot": 4},
    }
    head = {**common, "no_monitor": True, "include_dashboard": False, "_system_config": private.QUICK_HEALTH_CHECKS}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    every = [cluster.head_node, *(cluster.add_node(**common) for _ in range(nodes - 1))]

    def raylets(of: list[Any]) -> dict[str, int]:
        return {node.node_id: node.all_processes["raylet"][0].process.pid for node in of}

    gcs = cluster.head_node.all_processes["gcs_server"][0].process.pid
    print(json.dumps({"address": cluster.address, "raylets": raylets(every), "gcs": gcs}), flush=True)
    for _ in sys.stdin:
        print(json.dumps(raylets([cluster.add_node(**common)])), flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    main()
