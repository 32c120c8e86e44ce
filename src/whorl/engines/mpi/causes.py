"""Who was lost first, and of what: pidfds tell that somebody died, the launcher tells whose death it saw, and how."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Collection

from whorl.engines.mpi.seat import Seat
from whorl.engines.mpi.world import Launcher

_CAUSE_S = 1.0
_SIGNALLED = (
    re.compile(r"rank (?P<rank>\d+) with PID \d+ on node \S+ exited on\s+signal (?P<signal>\d+)"),
    re.compile(r"PID (?P<pid>\d+) RUNNING AT .*?EXIT CODE: (?P<signal>\d+)", re.DOTALL),
)


def cause_told(text: str) -> tuple[int | None, int | None, str]:
    """What a launcher's words say of the first death: its rank or its pid, and how it died."""
    for form in _SIGNALLED:
        match = form.search(text)
        if match is not None:
            found = match.groupdict()
            number = int(found["signal"])
            number = number - 128 if number > 128 else number
            rank, pid = (int(found[key]) if found.get(key) else None for key in ("rank", "pid"))
            try:
                return rank, pid, f"killed by {signal.Signals(number).name}"
            except ValueError:
                return rank, pid, f"exited with code {number}"
    return None, None, ""


def first_death(
    launcher: Launcher | None, seats: Collection[Seat], gone: list[Seat], wait_s: float = _CAUSE_S
) -> tuple[Seat | None, str]:
    """The first of the seats whose processes are gone, which are in the order of their deaths, and why it died. Where
    none is seen to be gone, the one that the launcher names; None when nobody can say."""
    rank, pid, cause = None, None, ""
    end = time.monotonic() + wait_s
    while launcher is not None and not cause and time.monotonic() < end:
        has_ended = launcher.has_ended  # before the look, so that nothing it says last is missed
        rank, pid, cause = cause_told(launcher.text())
        if has_ended:
            break
        time.sleep(0.02)
    told = [seat for seat in seats if seat.rank == rank or (pid and seat.page.pid == pid)]
    if not gone and not told:
        return None, launcher.said() if launcher is not None else ""
    seat = (gone or told)[0]
    if not cause or (told and seat not in told):
        cause = "its process has ended before its role"
    progress = seat.page.progress()
    place = f" in the environment of lane {progress.where}" if progress.phase == "environment" else ""
    return seat, cause + place
