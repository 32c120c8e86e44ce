"""Every test here runs on every engine."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from whorl.config.schema import EngineConfig
from whorl.engines.contract import Engine, Message, Plan, RoleId
from whorl.engines.registry import make_engine


class Recorder:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.restarts: list[tuple[RoleId, int, str]] = []

    def on_message(self, message: Message) -> None:
        self.messages.append(message)

    def on_restart(self, role: RoleId, incarnation: int, cause: str) -> None:
        self.restarts.append((role, incarnation, cause))

    def on_placed(self, table: Sequence[str]) -> None:
        self.placed = list(table)

    def bodies(self, kind: str) -> list[dict[str, Any]]:
        return [message.body for message in self.messages if message.kind == kind]


@pytest.fixture(params=["inline", "local", "mpi", "ray"])
def engine(request: pytest.FixtureRequest) -> Engine:
    if request.param == "mpi" and importlib.util.find_spec("mpi4py") is None and not os.environ.get("CI"):
        pytest.skip("needs pip install 'whorl[mpi]'")
    mpi = os.environ.get("WHORL_TEST_MPI", "auto")  # tests/mpi has these tests run on others than the default
    one_sided = os.environ.get("WHORL_TEST_ONE_SIDED", "auto")
    config = EngineConfig(name=request.param, patience_s=30.0, response_s=2.0, mpi=mpi, one_sided=one_sided)
    if request.param == "ray":
        config = replace(config, **request.getfixturevalue("ray_nodes").settings)
    return make_engine(config)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def run(engine: Engine, recorder: Recorder) -> Callable[[Plan], Recorder]:
    """Run a plan to its end and return what its roles said."""

    def run_plan(plan: Plan) -> Recorder:
        with engine.launch(plan, recorder) as cluster:
            cluster.run(until=lambda: False, timeout_s=60.0)
        return recorder

    return run_plan


@pytest.fixture
def shares_queues(engine: Engine) -> None:
    """Between nodes, and by messages, a channel of several readers is read by the first alone."""
    apart = bool({"WHORL_MPI_RANKS_PER_NODE", "MPIR_CVAR_NOLOCAL"} & set(os.environ))
    apart = apart or os.environ.get("WHORL_TEST_ONE_SIDED") == "never"
    if engine.name == "mpi" and apart:
        pytest.skip("without windows a channel has one reader")
