"""The local engine: checks what can be checked before any process starts, then launches."""

from __future__ import annotations

import os
import sys

from whorl.config.schema import EngineConfig
from whorl.engines.contract import Cluster, Observer, Plan
from whorl.engines.faults import VARIABLE, parse_faults
from whorl.engines.local.limits import check_descriptors, check_memory
from whorl.engines.local.status import PAGE_BYTES
from whorl.engines.local.supervisor import LocalCluster
from whorl.engines.local.wiring import check_slots, needed_bytes, needed_descriptors
from whorl.errors import BadInputError


class LocalEngine:
    """A process for each role."""

    name = "local"

    def __init__(self, config: EngineConfig | None = None, torch_threads: int = 1) -> None:
        self._config = config or EngineConfig()
        self._torch_threads = torch_threads

    def check(self, plan: Plan) -> None:
        """Refuse what cannot run here: another system, too little memory, too few descriptors."""
        if sys.platform != "linux":
            raise BadInputError("the local engine needs Linux (memfd, pidfd); use --engine inline")
        plan.check()
        plan.check_without_ranks()
        check_slots(plan)
        parse_faults(os.environ.get(VARIABLE, ""))
        check_memory(needed_bytes(plan) + PAGE_BYTES * len(plan.roles))
        check_descriptors(needed_descriptors(plan))

    def launch(self, plan: Plan, observer: Observer, instead_of: Cluster | None = None) -> LocalCluster:
        """Start every role's process; they run at once, and are looked after by ``run``."""
        if instead_of is not None:
            instead_of.close()
        self.check(plan)
        return LocalCluster(plan, observer, self._config, self._torch_threads)
