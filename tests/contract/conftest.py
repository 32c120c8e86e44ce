"""Every test here runs on every engine."""

from __future__ import annotations

from collections.abc import Callable
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

    def bodies(self, kind: str) -> list[dict[str, Any]]:
        return [message.body for message in self.messages if message.kind == kind]


@pytest.fixture(params=["inline", "local"])
def engine(request: pytest.FixtureRequest) -> Engine:
    return make_engine(EngineConfig(name=request.param, patience_s=30.0, response_s=2.0))


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
