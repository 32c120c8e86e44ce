"""Several machines on one: network namespaces that see each other through a switch. Needs root and ``ip`` (iproute2).

The switch is in a namespace of its own: this machine's own network is not touched, and every other may have the same
addresses.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import subprocess

import pytest

_NUMBERS = itertools.count()


def require_network(*programs: str) -> None:
    """Skip where there are no namespaces to be had, but not in CI."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("ip", *programs))):
        assert "CI" not in os.environ, "CI is root and has iproute2"
        pytest.skip(f"needs root and {', '.join(('ip', *programs))} for namespaces: tools/packages.sh")


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=20)


class Network:
    """So many machines, each with a cable to the switch."""

    def __init__(self, count: int) -> None:
        self._switch = f"w{os.getpid()}x{next(_NUMBERS)}"
        self._names = [f"{self._switch}m{number}" for number in range(count)]
        self.addresses = [f"10.77.7.{number + 1}" for number in range(count)]
        try:
            self._wire()
        except BaseException:
            self.end()
            raise

    def _wire(self) -> None:
        ip("netns", "add", self._switch)
        ip("-n", self._switch, "link", "add", "hub", "type", "bridge")
        ip("-n", self._switch, "link", "set", "hub", "up")
        for number, (name, address) in enumerate(zip(self._names, self.addresses, strict=True)):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", self._switch, "link", "add", f"p{number}", "type", "veth", "peer", "name", "net0", "netns", name)
            ip("-n", self._switch, "link", "set", f"p{number}", "master", "hub", "up")
            ip("-n", name, "addr", "add", f"{address}/24", "dev", "net0")
            ip("-n", name, "link", "set", "net0", "up")

    def on(self, number: int, *words: str) -> list[str]:
        """A command on one of the machines."""
        return ["ip", "netns", "exec", self._names[number], *words]

    def cable(self, number: int) -> list[str]:
        """The command that cuts or mends a machine's cable, at the switch; ``up`` or ``down`` comes after it."""
        return ["ip", "-n", self._switch, "link", "set", f"p{number}"]

    def end(self) -> None:
        """The power of every machine is cut."""
        for name in (*self._names, self._switch):
            inside = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True).stdout.split()
            for pid in inside:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
