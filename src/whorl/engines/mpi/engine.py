"""The mpi engine: sees to it that there are ranks enough, then has them told the plan."""

from __future__ import annotations

import os
import sys
from collections import Counter
from typing import TYPE_CHECKING

from whorl.config.schema import EngineConfig
from whorl.engines.contract import Cluster, Observer, Plan
from whorl.engines.faults import VARIABLE, parse_faults
from whorl.engines.inline.endpoints import needed_bytes
from whorl.engines.local.limits import check_memory
from whorl.engines.mpi.finding import find_mpi, launched, require_mpi4py
from whorl.errors import BadInputError

if TYPE_CHECKING:
    from whorl.engines.mpi.supervisor import MpiCluster

MOST_TAGS = 16_000


class MpiEngine:
    """A rank for each role."""

    name = "mpi"

    def __init__(self, config: EngineConfig | None = None, torch_threads: int = 1) -> None:
        self._config = config or EngineConfig()
        self._torch_threads = torch_threads

    def check(self, plan: Plan) -> None:
        """Refuse what cannot run here: no MPI, too few ranks, too little memory."""
        if sys.platform != "linux":
            raise BadInputError("the mpi engine needs Linux (memfd, pidfd); use --engine inline")
        require_mpi4py()
        plan.check()
        parse_faults(os.environ.get(VARIABLE, ""))
        for spec in plan.channels:
            if spec.slots < 1:
                raise ValueError(f"{spec.name} has {spec.slots} slots; a channel has at least 1")
        if len(plan.channels) > MOST_TAGS:
            raise BadInputError(f"the plan has {len(plan.channels)} channels; on mpi there are at most {MOST_TAGS}")
        check_memory(2 * needed_bytes(plan))
        self._check_ranks(plan)

    def _check_ranks(self, plan: Plan) -> None:
        from whorl.engines.mpi.world import inherited_world

        inherited = inherited_world()
        if inherited is None:
            if launched() is not None:
                raise BadInputError(
                    "under mpiexec or srun, train with the whorl command: the ranks follow its plan, not a script"
                )
            find_mpi(self._config.mpi, self._config.ulfm)
            return
        if inherited.size < len(plan.roles):
            kinds = Counter(role.id.kind for role in plan.roles)
            raise BadInputError(
                f"the plan needs {len(plan.roles)} ranks ({', '.join(f'{n} {kind}' for kind, n in kinds.items())}) and "
                f"{inherited.size} were started: use mpiexec -n {len(plan.roles)}, or fewer actors"
            )

    def launch(self, plan: Plan, observer: Observer, instead_of: Cluster | None = None) -> MpiCluster:
        """Start the ranks, or take those that are there (a launcher's, the last plan's), and tell them the plan."""
        from whorl.engines.mpi.supervisor import MpiCluster
        from whorl.engines.mpi.world import inherited_world, start_world

        ranks, there = len(plan.roles), None
        if isinstance(instead_of, MpiCluster):
            there = instead_of.hand_over(ranks)
            self._check_ranks(plan)
        else:
            self.check(plan)
        world = there or inherited_world() or start_world(find_mpi(self._config.mpi, self._config.ulfm), ranks)
        return MpiCluster(plan, observer, self._config, self._torch_threads, world)
