"""The Ray engine: checks what can be checked before any process starts, then launches."""

from __future__ import annotations

import importlib.util
import os
import sys

from whorl.config.schema import EngineConfig, Resources
from whorl.engines.contract import Cluster, Observer, Plan
from whorl.engines.faults import VARIABLE, parse_faults
from whorl.engines.local.wiring import check_slots
from whorl.engines.ray.private import of_this_job
from whorl.engines.ray.units import units_of
from whorl.errors import BadInputError, MissingExtraError


class RayEngine:
    """Roles on the nodes of a Ray cluster: a private one on this machine, or one that is joined."""

    name = "ray"

    def __init__(self, config: EngineConfig | None = None, resources: Resources | None = None) -> None:
        self._config = of_this_job(config or EngineConfig(name="ray"))
        self._resources = resources or Resources()

    def check(self, plan: Plan) -> None:
        """Refuse what cannot run here: no Ray, another system, a token that others can read."""
        if sys.platform != "linux":
            raise BadInputError("the Ray engine needs Linux (memfd, pidfd); use --engine inline")
        if importlib.util.find_spec("ray") is None:
            raise MissingExtraError("engine ray needs Ray: pip install 'whorl[ray]'")
        if self._config.token_file:
            from whorl.engines.ray.private import check_token_file

            check_token_file(self._config.token_file)
        plan.check()
        plan.check_without_ranks()
        check_slots(plan)
        parse_faults(os.environ.get(VARIABLE, ""))
        units_of(plan, self._config, self._resources)

    def launch(self, plan: Plan, observer: Observer, instead_of: Cluster | None = None) -> Cluster:
        """Have Ray place every unit; roles run at once, and are looked after by ``run``."""
        from whorl.engines.ray.cluster import RayCluster

        if instead_of is not None:
            instead_of.close()
        self.check(plan)
        return RayCluster(plan, observer, self._config, self._resources)
