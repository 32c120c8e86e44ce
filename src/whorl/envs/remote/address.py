"""Where a server is: ``tcp://HOST:PORT`` or ``ipc://PATH``, and who can reach it there."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import stat
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from whorl.errors import BadInputError, MissingExtraError

if TYPE_CHECKING:
    from whorl.config.schema import EnvConfig

SCHEMES = ("tcp://", "ipc://")
INSTALL = "pip install 'whorl[remote]'"
_LONGEST_PATH = 107  # of a Unix socket, in bytes
_TCP = re.compile(r"tcp://(\[[0-9a-fA-F:.]+\]|[\w.*-]+):(\d{1,5}|\*)")


def is_address(env_id: str) -> bool:
    """Whether an environment's id is the address of a server."""
    return env_id.startswith(SCHEMES)


def require_zmq(what: str) -> ModuleType:
    """ZeroMQ, or the line that installs it."""
    try:
        import zmq
    except ModuleNotFoundError:
        raise MissingExtraError(f"{what} needs ZeroMQ: {INSTALL}") from None
    return zmq


def check_address(address: str) -> None:
    """Refuse what no socket understands, before one waits for it."""
    if address.startswith("ipc://"):
        path = address.removeprefix("ipc://")
        if not path or path.startswith("@"):
            raise BadInputError(f"{address}: name a file, as in ipc:///tmp/mine/env.sock")
        if len(os.fsencode(path)) > _LONGEST_PATH:
            raise BadInputError(f"{address}: a socket's path has at most {_LONGEST_PATH} bytes; use a shorter one")
        return
    match = _TCP.fullmatch(address)
    if match is None or (match[2] != "*" and not 0 < int(match[2]) < 65536):
        raise BadInputError(f"{address}: expected tcp://HOST:PORT or ipc://PATH, such as tcp://127.0.0.1:5555")


def is_private(address: str) -> bool:
    """Whether only this machine can reach it."""
    if address.startswith("ipc://"):
        return True
    host = address.removeprefix("tcp://").rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_socket_folder(address: str) -> None:
    """Whoever may enter the folder of a Unix socket may connect: it must be ours alone."""
    path = Path(address.removeprefix("ipc://"))
    folder = path.parent
    try:
        status = folder.stat()
    except OSError:
        raise BadInputError(f"{address}: there is no folder {folder}; make one: mkdir -m 700 {folder}") from None
    if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
        raise BadInputError(
            f"{address}: others may enter {folder}, and so connect; use a folder of your own: mkdir -m 700 DIR"
        )
    if path.exists() and not path.is_socket():
        raise BadInputError(f"{address}: {path} is there and is no socket; use another name")
    if path.exists() and _answers(path):
        raise BadInputError(f"{address}: a server is running there already; use another path, or end that one")


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as tried:
        try:
            tried.connect(str(path))
        except OSError:
            return False
        return True


def kwargs_of(config: EnvConfig) -> Mapping[str, Any]:
    """The arguments an environment is made with; the patience of a served one follows ``env.step_timeout_s``."""
    if is_address(config.id) and config.step_timeout_s and "patience_s" not in config.kwargs:
        return {**config.kwargs, "patience_s": config.step_timeout_s}
    return config.kwargs
