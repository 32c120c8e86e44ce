"""Which ranks share a node's memory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from mpi4py import MPI

from whorl.engines.mpi.window import slowest_get_s

RANKS_PER_NODE = "WHORL_MPI_RANKS_PER_NODE"
"""For rehearsals: treat so many neighbouring ranks as a node, though they share a larger one."""
PRIVATE_MEMORY = "WHORL_MPI_PRIVATE_MEMORY"
"""For rehearsals: probe memory that MPI has not allocated, which most libraries reach with its owner's help only."""
_SLOW_S = 0.010


def name_of_node(rank: int) -> str:
    """As the driver tells nodes apart: what is on another one than its own cannot be seen without asking."""
    rehearsed = int(os.environ.get(RANKS_PER_NODE, "0"))
    return MPI.Get_processor_name() + (f"/{rank // rehearsed}" if rehearsed else "")


@dataclass(frozen=True)
class Nodes:
    """The nodes as the engine sees them. Where one-sided access stalls, each rank is a node of its own, and everything
    goes by messages."""

    comm: MPI.Intracomm
    """The ranks of this node."""
    of: tuple[int, ...]
    """By rank: the lowest rank of its node."""
    local: tuple[int, ...]
    """By rank: its rank in its node's communicator."""
    rank: int
    """This rank in the world."""
    slowest_get_s: float
    one_sided: bool

    @classmethod
    def look(cls, world: MPI.Intracomm, one_sided: str) -> Nodes:
        """Find them out, together with all other ranks: ``one_sided`` is ``auto``, ``always`` or ``never``."""
        comm: Any = world.Split_type(MPI.COMM_TYPE_SHARED, world.rank)
        rehearsed = int(os.environ.get(RANKS_PER_NODE, "0"))
        if rehearsed:
            comm = comm.Split(world.rank // rehearsed, world.rank)
        measured = np.zeros(1)
        if one_sided != "never":
            measured[0] = slowest_get_s(comm, _SLOW_S, private=PRIVATE_MEMORY in os.environ)
        world.Allreduce(MPI.IN_PLACE, measured, MPI.MAX)
        slowest = float(measured[0])
        usable = one_sided == "always" or (one_sided == "auto" and slowest < _SLOW_S)
        if not usable:
            comm = world.Split(world.rank, 0)
        first = np.array([world.rank], dtype=np.int64)
        comm.Bcast(first, 0)
        mine = np.array([first[0], comm.rank], dtype=np.int64)
        everybody = np.zeros((world.size, 2), dtype=np.int64)
        world.Allgather(mine, everybody)
        of, local = (tuple(column.tolist()) for column in everybody.T)
        return cls(comm, of, local, world.rank, slowest, usable)
