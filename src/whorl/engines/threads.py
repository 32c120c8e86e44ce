"""How many threads the numerical libraries of a role have, and how these wait for each other."""

from __future__ import annotations

import os

from whorl.engines.contract import Plan

_LIBRARIES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def thread_environ(threads: int, crowded: bool = False) -> dict[str, str]:
    """What a process must have in its environment before it imports them.

    Threads of OpenMP spin while they wait for each other. Where there are more of them than processors, the one that
    is waited for does not run meanwhile: 2 learners of 2 threads on 2 processors were 30 times slower than with one
    thread each. There, they sleep."""
    environ = dict.fromkeys(_LIBRARIES, str(threads))
    return environ | {"OMP_WAIT_POLICY": "PASSIVE"} if crowded and threads > 1 else environ


def is_crowded(plan: Plan, threads: int, nodes: int = 1) -> bool:
    """Whether the roles that compute, spread over so many nodes like this one, have more threads than it has
    processors."""
    computing = sum(role.torch for role in plan.roles)
    return threads * computing > nodes * len(os.sched_getaffinity(0))
