"""MPI's beginning. Imports next to nothing, so that it can come first in a process.

It has to where ``srun`` has started the ranks: what MPICH announces of a rank is a buffer of fixed size, of which the
rest is whatever lies behind it in memory; where that is not mostly zeros, a piece of it is longer than the 1,024 bytes
that Slurm's pmi2 reads of a request, and the ranks do not find each other. In a process that has done little yet, it is
zeros.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal

import mpi4py

mpi4py.rc.initialize = False
mpi4py.rc.finalize = False

from mpi4py import MPI as MPI  # noqa: E402

from whorl.engines.mpi.finding import MARK, START_S  # noqa: E402
from whorl.envs.mpi_memory import initialise_nameless  # noqa: E402
from whorl.signals import USER_SIGNALS  # noqa: E402

_AFTER_THE_DRIVER_S = 3.0


def initialise() -> None:
    """Begin, once. A thread closes environments while we wait for it, hence serialised.

    Ranks that do not find each other wait for ever in there; the driver has said so when this one ends itself."""
    if MPI.Is_initialized():
        return
    for number in USER_SIGNALS:  # a batch system's, of which the driver gets its own; MPICH may take them for itself
        signal.signal(number, signal.SIG_IGN)
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123
        faulthandler.dump_traceback_later(START_S + _AFTER_THE_DRIVER_S, exit=True, file=nowhere)
        initialise_nameless(lambda: MPI.Init_thread(MPI.THREAD_SERIALIZED), MPI.COMM_WORLD.Barrier)
        faulthandler.cancel_dump_traceback_later()
    if mark := os.environ.pop(MARK, ""):
        with contextlib.suppress(OSError), open(mark, "a"):  # noqa: PTH123
            pass
