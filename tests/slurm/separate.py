"""A Slurm whose nodes share files and nothing else: each has an address, a host name, a process table and a /dev/shm of
its own. Needs root, ``ip`` (iproute2) and ``unshare`` (util-linux).
"""

from __future__ import annotations

import socket
import subprocess
import time
from pathlib import Path

from tests.slurm.cluster import SlurmCluster, processes_of, require_slurm

from network import Network, require_network

_BOOT = 'hostname "$1"; mount --bind "$2" /etc/hosts; mount -t tmpfs tmpfs /dev/shm; shift 2; "$@"; exit'
"""A node's first process. It stays, since nobody else waits for what jobs leave to it."""
_OUT_S = 20.0


class SeparateNodes(SlurmCluster):
    """A node is all that is below the ``unshare`` which made it, and ends with it."""

    def __init__(self, nodes: int = 3, cpus: int = 2, slurmd_timeout_s: int = 300) -> None:
        require_slurm()
        require_network("unshare")
        self._network = Network(1 + nodes)
        super().__init__(nodes=nodes, cpus=cpus, slurmd_timeout_s=slurmd_timeout_s)

    def _number(self, node: str) -> int:
        return self.nodes.index(node) + 1 if node else 0

    def _place_of(self, node: str) -> tuple[str, str]:
        return node or socket.gethostname(), self._network.addresses[self._number(node)]

    def _at(self, node: str, command: list[str]) -> list[str]:
        if node:
            apart = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--uts", "--ipc", "--mount"]
            command = [*apart, "sh", "-ec", _BOOT, "sh", node, str(self._hosts), *command]
        return self._network.on(self._number(node), *command)

    @property
    def _hosts(self) -> Path:
        return self.folder / "hosts"

    def start_node(self, node: str) -> None:
        lines = ["127.0.0.1 localhost", *("{1} {0}".format(*self._place_of(each)) for each in ("", *self.nodes))]
        self._hosts.write_text("\n".join(lines) + "\n")
        subprocess.run([*self._network.cable(self._number(node)), "up"], check=True)
        super().start_node(node)

    def lose(self, node: str, *, told: bool = True) -> None:
        """Without a last word to anybody: the cable is cut before the power."""
        subprocess.run([*self._network.cable(self._number(node)), "down"], check=True)
        self._daemons[node].kill()
        self._daemons[node].wait()
        end = time.monotonic() + _OUT_S
        while processes_of(node):
            assert time.monotonic() < end, f"{node} lives on: {processes_of(node)}"
            time.sleep(0.05)
        if told:
            self.run("scontrol", "update", f"nodename={node}", "state=down", "reason=test")

    def end(self) -> None:
        try:
            super().end()
        finally:
            self._network.end()
