"""MPI launchers and the variables by which they tell a process which rank it is.

A program that is started by a rank, and is no rank itself, must not see them: it would take itself for that rank.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

_RANK_OF = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "PALS_RANKID", "MPI_LOCALRANKID")

_LAUNCHERS = re.compile(
    r"(PMI|PMIX|PALS|PRTE|OMPI|HYD|HYDI|HYDRA|MV2_COMM_WORLD)_"
    r"|MPI_LOCAL(NRANKS|RANKID)$"
    r"|SLURM_(PROCID|LOCALID|NODEID|TASK_PID|GTIDS|STEP_.*|STEPID|SRUN_COMM_.*|MPI_TYPE|PMIX.*|LAUNCH_NODE_IPADDR)$"
)
_USERS = re.compile(
    r"(OMPI|PRTE|PMIX)_MCA_(?!ess|orte|prte|pmix|plm|hnp|num_procs|schizo)|(OMPI|PRTE)_ALLOW_RUN_AS_ROOT"
)
"""Of the same names, those by which users tune Open MPI; programs that are started should follow them too."""


def under_launcher() -> bool:
    """Whether this process was started as a rank, by ``mpiexec``, ``srun`` or their like."""
    return any(name in os.environ for name in _RANK_OF)


def without_launcher(environment: Mapping[str, str]) -> dict[str, str]:
    """A copy without what a launcher set, for a program that is no rank: it may call ``mpiexec`` itself."""
    return {name: value for name, value in environment.items() if not _LAUNCHERS.match(name) or _USERS.match(name)}
