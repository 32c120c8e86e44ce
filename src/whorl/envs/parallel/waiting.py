"""Waiting for MPI without burning a core. MPI's own blocking calls spin, and ranks often share cores."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

_YIELDS = 50
"""Looks before the first sleep: an answer that is on its way comes within microseconds."""
_SHORTEST_S, _LONGEST_S = 20e-6, 5e-3
_SHARE = 0.1


def wait_until(is_done: Callable[[], bool], patience_s: float | None = None) -> bool:
    """Look again and again, ever less often: a pause is a tenth of the time waited so far, 5 ms at most.

    False when ``patience_s`` is over.
    """
    for _ in range(_YIELDS):
        if is_done():
            return True
        os.sched_yield()
    began_s = time.monotonic()
    while not is_done():
        waited_s = time.monotonic() - began_s
        if patience_s is not None and waited_s > patience_s:
            return False
        time.sleep(min(max(_SHARE * waited_s, _SHORTEST_S), _LONGEST_S))
    return True


def wait_for(*requests: Any) -> None:
    """Until these requests of mpi4py (``comm.Isend``, ``comm.Irecv``, ...) are complete."""
    for request in requests:
        wait_until(request.Test)
