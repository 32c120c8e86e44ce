"""A role's process, from its request to its last word."""

from __future__ import annotations

import select
import signal
import socket
import sys
import traceback
from types import FrameType
from typing import Any

from whorl.engines.contract import Role, RoleId
from whorl.engines.driving import Dismissed
from whorl.engines.entries import begin_role, load_entry
from whorl.engines.local.limits import is_out_of_memory
from whorl.engines.local.line import RoleLine
from whorl.engines.local.loop import RoleLoop
from whorl.engines.local.memory import map_segment
from whorl.engines.local.status import StatusClock
from whorl.engines.local.wiring import Attaching
from whorl.errors import WhorlError, last_line, message_of

STARTING = -1
"""The status page's ``where`` while a role imports its modules."""

_FLUSH_S = 5.0


def run_role(request: dict[str, Any], descriptors: list[int]) -> int:
    """Run one role to its end; returns the process's exit code."""
    try:
        return _run(request, descriptors)
    except Dismissed:
        return 0


def _run(request: dict[str, Any], descriptors: list[int]) -> int:
    role_id = RoleId(*request["role"])
    line_descriptor, status_descriptor, *rest = descriptors
    clock = StatusClock(map_segment(status_descriptor))
    clock.enter("other", deadline_s=request["start_deadline_s"], where=STARTING)
    connection = socket.socket(fileno=line_descriptor)
    line = RoleLine(role_id, connection, clock)
    loop = RoleLoop(role_id, line, clock, request["patience_s"])
    _set_signals(connection, loop)
    try:
        entry = load_entry(request["entry"])
        attaching = Attaching(rest, clock, request["incarnation"])
        arguments = {
            name: [attaching.endpoint(each) for each in wired] if isinstance(wired, list) else attaching.endpoint(wired)
            for name, wired in request["endpoints"].items()
        }
        role = Role(role_id, request["incarnation"], line, clock, request["job"], dict(request["deaths"]))
        clock.enter("other")
        loop.drive(begin_role(entry, role, arguments))
    except Dismissed:
        raise
    except BaseException as error:
        loop.settle()
        clock.enter("other")
        line.send_control("failed", describe_failure(error))
        loop.flush(_FLUSH_S)
        return 1
    loop.settle()
    clock.enter("other")
    line.send_control("ended")
    loop.flush(_FLUSH_S)
    return 0


def describe_failure(error: BaseException) -> dict[str, Any]:
    """The last word of a role that failed: for the supervisor, and in full to the log."""
    text = "".join(traceback.format_exception(error))
    print(text, file=sys.stderr, flush=True)
    shortage = "out of memory: " if is_out_of_memory(error) else ""
    return {
        "types": [kind.__name__ for kind in type(error).__mro__],
        "message": shortage + message_of(error),
        "line": shortage + last_line(error),
        "traceback": text[-20_000:].encode(errors="replace").decode(),
        "final": isinstance(error, WhorlError),
    }


def _set_signals(connection: socket.socket, loop: RoleLoop) -> None:
    """SIGINT is the driver's business. So is SIGTERM, which batch systems send to every process: it counts only once
    the driver has hung up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    hang_up = select.poll()
    hang_up.register(connection.fileno(), select.POLLHUP)

    def on_terminate(_signal: int, _frame: FrameType | None) -> None:
        if hang_up.poll(0):
            loop.dismiss()

    signal.signal(signal.SIGTERM, on_terminate)
