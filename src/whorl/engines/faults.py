"""Fault points: rehearse deaths and hangs on your own machine or cluster.

    WHORL_FAULT="actor:2:env_step=17:kill" whorl train ppo CartPole-v1 --actors 4

reads: in ``actor-2``, when its count ``env_step`` is exactly 17, ``kill`` the process. Several faults are separated by
commas. Actions:

- ``kill``      SIGKILL, as the out-of-memory killer does
- ``stop``      SIGSTOP: the process is there and does nothing
- ``raise``     an exception
- ``exit0``     the process ends with exit code 0, which is not success
- ``segfault``  SIGSEGV
- ``hang``      sleeps for ever, holding nothing

A fault strikes the first incarnation of a role only; append ``:always`` to strike each one. On the ``inline`` engine
the process is the whole run.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from whorl.engines.contract import RoleId
from whorl.errors import ConfigError

VARIABLE = "WHORL_FAULT"

FaultHook = Callable[[str, int], None]

_FORM = re.compile(r"(?P<kind>\w+):(?P<index>\d+):(?P<point>\w+)=(?P<count>\d+):(?P<action>\w+)(?P<always>:always)?")


class InjectedFault(RuntimeError):
    """Raised by the action ``raise``."""


def _raise() -> None:
    raise InjectedFault(f"raised on purpose ({VARIABLE}={os.environ.get(VARIABLE)})")


def _hang() -> None:
    while True:
        time.sleep(3600)


ACTIONS: dict[str, Callable[[], None]] = {
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "raise": _raise,
    "exit0": lambda: os._exit(0),
    "segfault": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "hang": _hang,
}


@dataclass(frozen=True)
class Fault:
    """One planned fault."""

    role: RoleId
    point: str
    count: int
    action: str
    always: bool


def parse_faults(text: str) -> tuple[Fault, ...]:
    """The faults of a ``WHORL_FAULT`` text; ``ConfigError`` when it is not of the documented form."""
    faults = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = _FORM.fullmatch(part)
        if match is None or match["action"] not in ACTIONS:
            raise ConfigError(
                f"{VARIABLE}={part!r} is not of the form role:index:point=N:action "
                f"with an action of {', '.join(ACTIONS)}"
            )
        role = RoleId(match["kind"], int(match["index"]))
        faults.append(Fault(role, match["point"], int(match["count"]), match["action"], bool(match["always"])))
    return tuple(faults)


def forget_first_faults() -> None:
    """The roles of this process go on under other names, which are not to be struck as first incarnations again."""
    faults = os.environ.get(VARIABLE, "").split(",")
    os.environ[VARIABLE] = ",".join(fault for fault in faults if fault.strip().endswith(":always"))


def fault_hook(role: RoleId, incarnation: int) -> FaultHook | None:
    """What a role calls at its fault points, or None (nearly always) when no fault is planned for it.

    strike = fault_hook(role.id, role.incarnation)
    ...
    if strike is not None:
        strike("env_step", rows_done)
    """
    mine = {
        (fault.point, fault.count): fault.action
        for fault in parse_faults(os.environ.get(VARIABLE, ""))
        if fault.role == role and (incarnation == 0 or fault.always)
    }
    if not mine:
        return None

    def strike(point: str, count: int) -> None:
        action = mine.get((point, count))
        if action is not None:
            ACTIONS[action]()

    return strike
