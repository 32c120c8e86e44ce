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

QUICK_ON_RAY = (
    "test_the_newest_version_and_the_one_before_can_be_read",
    "test_several_readers_share_a_channel_without_doubles",
    "test_slots_are_given_back_in_any_order",
    "test_a_full_channel_blocks_its_writer_and_a_reserved_slot_stays_reserved",
    "test_sums_are_bit_for_bit_those_of_adding_in_order[ray-3]",
    "test_messages_go_round_with_big_arrays_and_without_objects",
    "test_when_patience_ends_the_run_ends_and_says_who_waited_for_whom",
    "test_errors_raised_on_purpose_reach_the_driver_as_they_are[ray-EnvironmentFault]",
    "test_a_parked_role_is_started_when_asked_for_and_those_are_told_who_want_to_know",
)
"""Each launch starts a few Ray workers, which takes seconds: the others run in `make verify`."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        on_ray = "contract" in item.path.parts and "[ray" in item.name
        if on_ray and not any(item.name.startswith(quick) for quick in QUICK_ON_RAY):
            item.add_marker(pytest.mark.verify)


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
