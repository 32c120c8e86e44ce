"""Which address of this node others are to use: that of a named interface, or the one the way to them begins at."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import socket
import struct
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from whorl.errors import BadInputError, WhorlError

_SIOCGIFADDR = 0x8915
_ANY_PORT = 9
_CONNECT_S = 5.0
_UCX_DEVICES, _OPEN_MPI_TCP = "UCX_NET_DEVICES", "OMPI_MCA_btl_tcp_if_include"
_OPEN_MPI_LAUNCHER = ("OMPI_MCA_oob_tcp_if_include", "PRTE_MCA_oob_tcp_if_include")
"""Of its mpiexec until version 4, and from 5 on."""
_ADAPTERS, _NETWORK = Path("/sys/class/infiniband"), Path("/sys/class/net")


def address_of(interface: str) -> str:
    """The IPv4 address of an interface of this node."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            packed = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, struct.pack("256s", interface.encode()[:15]))
        except OSError:
            there = ", ".join(name for _, name in socket.if_nameindex())
            raise BadInputError(
                f"--interface {interface}: {socket.gethostname()} has no such interface with an IPv4 address; "
                f"there are {there}"
            ) from None
    return socket.inet_ntoa(packed[20:24])


def route_to(host: str) -> str:
    """The address of this node that the way to a host begins at. Sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, _ANY_PORT))
        return str(probe.getsockname()[0])


def head_address(interface: str, others: Sequence[str]) -> str:
    """Where the head listens: at the named interface; else at the one towards the other nodes; alone, at loopback."""
    if interface:
        return address_of(interface)
    if not others:
        return "127.0.0.1"
    for node in others:
        for name in (node, _told_by_slurm(node)):
            with contextlib.suppress(OSError):
                if name:
                    return route_to(name)
    raise BadInputError(f"no way is known from here to {others[0]}: its name does not resolve; name an --interface")


def interface_of(address: str) -> str:
    """The name of the interface that has an address; empty where none has."""
    for _, name in socket.if_nameindex():
        with contextlib.suppress(BadInputError):
            if address_of(name) == address:
                return name
    return ""


def one_network_device(interface: str, others: Sequence[str]) -> dict[str, str]:
    """For MPI, whose UCX would announce every address that the node has: the announcement then outgrows what Slurm's
    PMI takes, and the job breaks off. Nothing where the user has set it, or, unless an interface is named, where there
    is hardware that knows better.
    """
    if not interface and any(_ADAPTERS.glob("*")):
        return {}
    name = interface_of(head_address(interface, others))
    told = {_UCX_DEVICES: ",".join([*_adapters_of(name), name])} if name else {}
    if interface:
        told[_OPEN_MPI_TCP] = interface
    return {variable: text for variable, text in told.items() if variable not in os.environ}


def launcher_interface(interface: str) -> dict[str, str]:
    """For Open MPI's mpiexec, which speaks to the other nodes itself."""
    return {variable: interface for variable in _OPEN_MPI_LAUNCHER if interface and variable not in os.environ}


def _adapters_of(interface: str) -> list[str]:
    """What UCX calls the InfiniBand adapters behind an interface: the fast way to the same network."""
    return [f"{adapter.name}:1" for adapter in sorted(_NETWORK.glob(f"{interface}/device/infiniband/*"))]


def wait_until_reachable(address: str, interface: str, end: float) -> str:
    """Our own address on the way to ``HOST:PORT``, once that answers; ``end`` is monotonic."""
    host, _, port = address.rpartition(":")
    source = address_of(interface) if interface else None
    reason = "it did not answer"
    while True:
        try:
            begins_at = (source, 0) if source else None
            with socket.create_connection((host, int(port)), timeout=_CONNECT_S, source_address=begins_at) as link:
                return str(link.getsockname()[0])
        except OSError as error:
            reason = error.strerror or str(error)
        if time.monotonic() > end:
            over = f" over {interface}" if interface else ""
            mend = "name an --interface that all nodes share"
            if host.startswith("127."):  # as that of a job of one node which was not told otherwise
                mend = "it listens on its own node alone; start its job with an --interface that all nodes share"
            raise WhorlError(
                f"the head at {address} cannot be reached from {socket.gethostname()}{over} ({reason}): {mend}"
            )
        time.sleep(0.2)


def answers(address: str) -> bool:
    """Whether somebody listens at ``HOST:PORT`` now."""
    try:
        wait_until_reachable(address, "", time.monotonic())
    except WhorlError:
        return False
    return True


def _told_by_slurm(node: str) -> str:
    """Where Slurm reaches a node whose name does not resolve."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        words = subprocess.run(
            ["scontrol", "show", "node", node], capture_output=True, text=True, timeout=20, check=True
        ).stdout
        if found := re.search(r"NodeAddr=(\S+)", words):
            return found[1]
    return ""
