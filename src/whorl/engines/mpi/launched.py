"""When a launcher has started the ``whorl`` command many times: each process becomes a rank, and rank 0 also starts the
driver, a process of its own with the very same command line.

So the driver is no rank: it can name what killed one, write the result and set the exit code after MPI has ended.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys

from whorl.engines.mpi.finding import DRIVER, Place, installed, launched, require_mpi4py
from whorl.envs.launchers import without_launcher
from whorl.errors import EXIT_DONE, EXIT_FAILED, EXIT_PREEMPTED
from whorl.signals import WARNINGS

_GOODBYE_S = 30.0


def rank_of_launcher() -> Place | None:
    """The place of this process among a launcher's ranks; None for the driver and for a process of its own."""
    return None if DRIVER in os.environ else launched()


def be_a_rank(place: Place) -> int:
    """Serve the driver to its end; returns the exit code, which is the driver's at rank 0."""
    require_mpi4py()
    os.environ.update({name: value for name, value in _own_settings(place).items() if name not in os.environ})
    driver = None if place.rank else _Driver(place)
    from whorl.engines.mpi.beginning import initialise

    initialise()  # before the rest of Whorl is imported
    from whorl.engines.mpi.rank import run_rank

    if driver is None:
        run_rank(None, of_launcher=True)
        return EXIT_DONE
    run_rank(driver.line, forward_to=driver.pid)
    return driver.wait()


class _Driver:
    """Started by rank 0."""

    def __init__(self, place: Place) -> None:
        self.line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            environ = without_launcher(dict(os.environ)) | {DRIVER: f"{theirs.fileno()}:{place.size}"}
            self._process = subprocess.Popen(
                [sys.executable, "-m", "whorl", *sys.argv[1:]],
                pass_fds=[theirs.fileno()],
                env=environ,
                start_new_session=True,  # what a launcher does to end its ranks must leave it time for a last word
            )
        self.pid = self._process.pid

    def wait(self) -> int:
        """Its exit code, after its last words. One that was still importing dies of a warning, with nothing to save."""
        self.line.close()
        try:
            status = self._process.wait(_GOODBYE_S)
            return EXIT_PREEMPTED if -status in WARNINGS else status
        except subprocess.TimeoutExpired:
            self._process.kill()
            return EXIT_FAILED


def _own_settings(place: Place) -> dict[str, str]:
    """What mpi4py must know to find the library of the launcher that started us."""
    found = installed().get(place.mpi)
    return {} if found is None else found.environ
