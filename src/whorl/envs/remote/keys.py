"""Who may connect: CURVE keys in a folder that nobody else can read.

    DIR/server.secret           the server's, stays where it serves
    DIR/server.public           clients know the server by it
    DIR/client.secret           a client's own
    DIR/clients/NAME.public     a file for each client that may connect

Each file is one line of 40 characters (Z85). One folder does for both sides; on another machine a client needs
``server.public`` and ``client.secret`` only.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from whorl.envs.remote.address import require_zmq
from whorl.errors import BadInputError

_Z85 = re.compile(rb"[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}")


def make_keys(folder: Path) -> list[Path]:
    """Make a folder with keys for a server and one client; nothing there is ever overwritten."""
    zmq = require_zmq("whorl env keys")
    names = ("server.secret", "server.public", "client.secret", "clients/client.public")
    for name in names:
        if (folder / name).exists():
            raise BadInputError(f"{folder / name} is there already; use another folder, or remove that one")
    for made in (folder, folder / "clients"):
        made.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_private(made)
    server_public, server_secret = zmq.curve_keypair()
    client_public, client_secret = zmq.curve_keypair()
    paths = [folder / name for name in names]
    for path, key in zip(paths, (server_secret, server_public, client_secret, client_public), strict=True):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(key + b"\n")
    return paths


def server_secret(folder: Path) -> bytes:
    """A server's own key."""
    return _read(folder, "server.secret")


def client_keys(folder: Path) -> tuple[bytes, bytes]:
    """The server's public key and the client's own."""
    return _read(folder, "server.public"), _read(folder, "client.secret")


def allowed_clients(folder: Path) -> frozenset[bytes]:
    """The public keys of all clients that may connect."""
    _check_private(folder)
    clients = folder / "clients"
    _check_private(clients)
    names = sorted(path.name for path in clients.glob("*.public"))
    if not names:
        raise BadInputError(f"{clients} names no client; put the public key of each into a file NAME.public there")
    return frozenset(_read(clients, name) for name in names)


def _read(folder: Path, name: str) -> bytes:
    _check_private(folder)
    path = folder / name
    _check_private(path)
    text = path.read_bytes()[:100].strip()
    if not _Z85.fullmatch(text):
        raise BadInputError(f"{path} holds no key: one line of 40 characters; `whorl env keys DIR` makes some")
    return text


def _check_private(path: Path) -> None:
    """Ours, and nobody else's to read."""
    try:
        status = path.stat()
    except OSError:
        raise BadInputError(f"there is no {path}; `whorl env keys DIR` makes a folder with keys") from None
    if status.st_uid != os.getuid():
        raise BadInputError(f"{path} belongs to somebody else; keys must be your own")
    if stat.S_IMODE(status.st_mode) & 0o077:
        mode = "700" if path.is_dir() else "600"
        raise BadInputError(f"{path} can be read by others; mend: chmod {mode} {path}, and make new keys if they did")
