"""The Ray processes of one node of a job: ``python -m whorl.cluster.ray_node``, a child of the node's process.

It reads its order from its standard input as a line of JSON, says ``{"address": ...}`` when it is up, and ends with
its standard input, and every process of Ray's with it: whatever they leave behind becomes its child, and is killed.
Where it is killed itself, the kernel kills them. So nothing of ours is left, and nothing of others is touched (``ray
stop`` would end every Ray that it can see).

Batch systems send their warning signal to every process of a job. Ray's would obey it and take the run with them
before it is saved; so they are started with these signals blocked, and end when the training has.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any

from whorl.engines.local.nursery import STOP_SIGNALS

_LOOK_EVERY_S = 1.0
_OFFSPRING_S = 5.0
_PR_SET_CHILD_SUBREAPER = 36


def start(order: dict[str, Any]) -> Any:
    """Start the processes; every port is one that the system finds free at that moment."""
    from whorl.engines.ray import private

    private.set_environment(order["token_file"])
    for name in ("RAY_ADDRESS", "RAY_TMPDIR"):  # the user's own clusters are not meant
        os.environ.pop(name, None)
    if order["ip"].startswith("127."):
        private.stay_on_loopback()
    from ray._private.node import Node
    from ray._private.parameter import RayParams

    is_head = not order["join"]
    settings: dict[str, Any] = {
        "num_cpus": order["cpus"],
        "num_gpus": order["gpus"],
        "resources": order["resources"],
        "memory": order["memory_bytes"],
        "object_store_memory": order["store_bytes"],
        "node_ip_address": order["ip"],
        "temp_dir": order["folder"],
        "min_worker_port": 0,
        "max_worker_port": 0,
        "dashboard_agent_listen_port": 0,
        "include_log_monitor": False,
    }
    if is_head:
        settings |= {"include_dashboard": False, "no_monitor": True, "_system_config": private.QUICK_HEALTH_CHECKS}
    else:
        settings["gcs_address"] = order["join"]
    return Node(RayParams(**settings), head=is_head, shutdown_at_exit=True, spawn_reaper=True)


def main() -> None:
    """Serve one node's process."""
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    adopt_orphans()
    said = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Ray prints goes into the log
    order = json.loads(sys.stdin.readline())
    try:
        node = start(order)
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), file=said, flush=True)
        raise
    print(json.dumps({"address": node.gcs_address}), file=said, flush=True)
    while not select.select([sys.stdin], [], [], _LOOK_EVERY_S)[0]:
        dead = [kind for kind, _ in node.dead_processes() if kind in ("raylet", "gcs_server")]
        if dead:
            print(f"whorl: the {dead[0]} of this node has ended", file=sys.stderr)
            break
    node.kill_all_processes(check_alive=False, allow_graceful=False)
    kill_offspring()
    os._exit(0)


def adopt_orphans() -> None:
    """What our descendants leave behind becomes our child, and not init's."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def kill_offspring() -> None:
    """End every child, and those that they leave behind, in bounded time."""
    end = time.monotonic() + _OFFSPRING_S
    while (children := _children()) and time.monotonic() < end:
        for pid in children:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.01)


def _children() -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            parent = int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1])
            if parent == os.getpid():
                found.append(int(entry.name))
    return found


if __name__ == "__main__":
    main()
