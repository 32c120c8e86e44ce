"""The engines by name."""

from __future__ import annotations

import difflib

from whorl.config.schema import EngineConfig, Resources
from whorl.engines.contract import Engine
from whorl.errors import ConfigError

_SUMMARIES = {
    "inline": "every role in one thread with a fixed schedule: for debugging and for small jobs",
    "local": "a process for each role on this machine, joined by shared memory",
    "mpi": "a rank of an MPI job for each role, on one node or many (needs whorl[mpi])",
    "ray": "roles on the nodes of a Ray cluster: a private one on this machine, or one that is joined",
}


def engine_table() -> list[tuple[str, str]]:
    """Name and summary of each engine."""
    return list(_SUMMARIES.items())


def make_engine(config: EngineConfig, resources: Resources | None = None) -> Engine:
    """The engine a resolved config names."""
    if config.name == "inline":
        from whorl.engines.inline import InlineEngine

        return InlineEngine()
    if config.name == "local":
        from whorl.engines.local.engine import LocalEngine

        return LocalEngine(config, (resources or Resources()).learner_threads)
    if config.name == "mpi":
        from whorl.engines.mpi.engine import MpiEngine

        return MpiEngine(config, (resources or Resources()).learner_threads)
    if config.name == "ray":
        from whorl.engines.ray.engine import RayEngine

        return RayEngine(config, resources)
    near = difflib.get_close_matches(config.name, _SUMMARIES, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(_SUMMARIES)}"
    raise ConfigError(f"engine.name = {config.name!r} is not an engine; {hint}")
