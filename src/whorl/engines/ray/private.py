"""A Ray cluster of one's own on this machine, and how a process of ours speaks to any Ray cluster.

Token authentication is always on. A private cluster listens on the loopback interface alone, keeps everything it writes
in a short folder of its own (the path of a socket has room for 107 bytes) and ends with the process that started it.
"""

from __future__ import annotations

import itertools
import os
import re
import secrets
import shutil
import socket
import stat
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from whorl.config.schema import EngineConfig
from whorl.errors import BadInputError, WhorlError, last_line
from whorl.runs.status import one_line

ADDRESS, TOKEN_FILE = "WHORL_RAY_ADDRESS", "WHORL_RAY_TOKEN_FILE"
"""The cluster of the batch job that a run goes on in. Not a setting: a resumed run is in another one."""
QUICK_HEALTH_CHECKS = {
    "health_check_initial_delay_ms": 500,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 2000,
    "health_check_failure_threshold": 3,
}
"""A node that is silent for 6 to 8 s is lost, one of 5 s is not; Ray's own setting is about a minute. For the head."""
REACH_S = 10.0
OBJECT_STORE_BYTES = 256 * 2**20
SHORT_BYTES = 26
"""Of a folder below which Ray may have its sockets. Their paths have room for 107 bytes, of which Ray and we ourselves
take up to 81: /whorl-XXXXXXXX/r/session_YYYY-MM-DD_HH-MM-SS_FFFFFF_PPPPPPP/sockets/plasma_store."""
_LOOPBACK = "127.0.0.1"
REASON_CHARACTERS = 300
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_FIELD = re.compile(r"\t(class_name|actor_id|pid|name|namespace|ip): ")
"""Which actor has died; below it Ray says why."""
_NO_REASON = "before finishing this task."


def set_environment(token_file: str) -> None:
    """Before Ray is imported: what every process of ours says to it."""
    os.environ.update(
        RAY_AUTH_MODE="token",
        RAY_USAGE_STATS_ENABLED="0",
        RAY_DISABLE_IMPORT_WARNING="1",
        RAY_DEDUP_LOGS="0",
        RAY_ENABLE_UV_RUN_RUNTIME_ENV="0",
        RAY_gcs_rpc_server_reconnect_timeout_s="8",
        RAY_raylet_start_wait_time_s="100",  # on a busy machine
        RAY_worker_niceness="0",  # or roles give way to everybody, at 15
    )
    if token_file:
        os.environ["RAY_AUTH_TOKEN_PATH"] = token_file
        os.environ.pop("RAY_AUTH_TOKEN", None)


def of_this_job(config: EngineConfig) -> EngineConfig:
    """The same settings; the cluster that is joined is that of this batch job, where there is one and none is named."""
    address, token_file = joined_cluster(config.address, config.token_file)
    return replace(config, address=address, token_file=token_file)


def joined_cluster(address: str, token_file: str) -> tuple[str, str]:
    """The one that is named; where none is, that of this batch job, where there is one."""
    if address or not os.environ.get(ADDRESS):
        return address, token_file
    return os.environ[ADDRESS], os.environ.get(TOKEN_FILE, "")


def check_token_file(path: str) -> None:
    """Refuse a token that others can read."""
    try:
        mode = Path(path).stat().st_mode
    except OSError as error:
        raise BadInputError(f"engine.token_file: {path}: {error.strerror}") from error
    if stat.S_IMODE(mode) & 0o077:
        raise BadInputError(f"engine.token_file: {path} can be read by others: chmod 600 {path}")


def make_token(path: Path) -> None:
    """A new token, readable by its owner alone."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secrets.token_hex(32))


class PrivateCluster:
    """One node on this machine, of as many CPUs as are asked for."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="whorl-", dir=short_folder()))
        make_token(self.folder / "token")
        set_environment(str(self.folder / "token"))

    def start(self, resources: dict[str, float], namespace: str) -> dict[str, float]:
        """Start it and connect to it; returns what it has: CPUs and what else one asks for, and the GPUs there are."""
        import ray

        stay_on_loopback()
        custom = {name: amount for name, amount in resources.items() if name not in ("CPU", "GPU")}
        ray.init(
            num_cpus=max(1, -int(-resources.get("CPU", 1) // 1)),
            num_gpus=None if resources.get("GPU") else 0,  # None: as many as Ray finds
            resources=custom or None,
            namespace=namespace,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
            object_store_memory=OBJECT_STORE_BYTES,
            _node_ip_address=_LOOPBACK,
            _temp_dir=str(self.folder / "r"),
            _system_config=dict(QUICK_HEALTH_CHECKS),
        )
        return _amounts(ray.cluster_resources())

    def end(self) -> None:
        """End its processes and remove its folder."""
        import ray

        ray.shutdown()
        shutil.rmtree(self.folder, ignore_errors=True)


def connect(address: str, namespace: str) -> dict[str, float]:
    """Join a cluster that somebody else has started; returns what it has."""
    here = route_to(address)
    import ray

    if here.startswith("127."):
        stay_on_loopback()
    how: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "_node_ip_address": here}
    try:
        ray.init(address=address, namespace=namespace, **how)
    except Exception as error:  # of many kinds; who has another token is told nothing more than that it failed
        raise BadInputError(
            f"{in_one_line(error)}: somebody answers there; is engine.token_file the token of that cluster?"
        ) from error
    return _amounts(ray.cluster_resources())


def of_each_node() -> list[dict[str, float]]:
    """What each node that is up has in all, of the cluster that we are connected to."""
    import ray

    return [_amounts(node["Resources"]) for node in ray.nodes() if node["Alive"]]


def _amounts(resources: dict[str, Any]) -> dict[str, float]:
    return {name: float(amount) for name, amount in resources.items() if isinstance(amount, int | float)}


def route_to(address: str) -> str:
    """Our own address on the way to a head that answers. Ray would ask for the way to the internet, which compute nodes
    may not have. ``BadInputError`` when nobody answers within ``REACH_S``."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise BadInputError(f"engine.address: {address!r} is not HOST:PORT, such as 10.0.0.1:6379")
    end = time.monotonic() + REACH_S
    while True:
        try:
            with socket.create_connection((host, int(port)), timeout=max(0.1, end - time.monotonic())) as connection:
                return str(connection.getsockname()[0])
        except OSError as error:
            if time.monotonic() > end or not isinstance(error, ConnectionRefusedError | TimeoutError):
                reason = error.strerror or str(error)
                raise BadInputError(f"nobody answers at {address} ({reason}): does the head run there?") from error
            time.sleep(0.2)


def stay_on_loopback() -> None:
    """Ray has other machines in mind, and takes the outer address of this one where it is told the loopback one.

    There is no public way around that: any other address of the loopback network, such as 127.0.0.2, is left as it is,
    but Ray's servers then listen on every interface; for 127.0.0.1 alone they do not. A test looks at the sockets.
    """
    from ray._private import services

    services.resolve_ip_for_localhost = lambda host: host


def lost_for_good() -> tuple[type[Exception], ...]:
    """What Ray raises of an actor that it will not bring back. Whatever else it raises may pass."""
    from ray.exceptions import ActorDiedError, OutOfMemoryError

    return ActorDiedError, OutOfMemoryError  # the latter of one that Ray itself has killed, when memory ran low


def in_one_line(error: BaseException) -> str:
    """Of what Ray says, the reason: neither where a traceback went nor which actor it was."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, BaseException):  # a task's own error, of which Ray shows a coloured traceback
        return _COLOUR.sub("", last_line(cause))
    if isinstance(error, WhorlError):
        return str(error)
    lines = _COLOUR.sub("", str(error)).splitlines()
    frames = [number for number, line in enumerate(lines) if line.startswith("  File ")]
    if frames:  # of an actor that failed as it was made, for one
        lines = [line for line in lines[frames[-1] + 1 :] if not line.startswith(" ")]
    lines = [line for line in lines if line.strip() and not _FIELD.match(line)]
    if len(lines) > 1 and lines[0].endswith(_NO_REASON):
        del lines[0]
    more = itertools.takewhile(lambda line: line.startswith("\t"), lines[1:])
    return one_line(" ".join([*lines[:1], *more]), REASON_CHARACTERS) or type(error).__name__


def short_folder() -> str:
    """For temporary files of a node, sockets of Ray's among them: TMPDIR, where it is short enough for these."""
    wanted = tempfile.gettempdir()
    return wanted if len(os.fsencode(wanted)) <= SHORT_BYTES else "/tmp"
