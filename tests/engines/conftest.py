"""Real processes and real kills."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from whorl.config.schema import EngineConfig
from whorl.engines.contract import Message, Plan, RoleId
from whorl.engines.local.engine import LocalEngine
from whorl.engines.local.supervisor import LocalCluster


class Recorder:
    """An observer that remembers when what happened."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.restarts: list[tuple[RoleId, int, str]] = []
        self.restarted_at: list[float] = []

    def on_message(self, message: Message) -> None:
        self.messages.append(message)

    def on_restart(self, role: RoleId, incarnation: int, cause: str) -> None:
        self.restarts.append((role, incarnation, cause))
        self.restarted_at.append(time.monotonic())

    def on_placed(self, table: Sequence[str]) -> None:
        """Nobody asks."""

    def count(self, kind: str) -> int:
        return len(self.bodies(kind))

    def bodies(self, kind: str) -> list[dict[str, Any]]:
        return [message.body for message in self.messages if message.kind == kind]


Launch = Callable[..., LocalCluster]


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def launch(recorder: Recorder) -> Iterator[Launch]:
    """Launch a plan with engine settings; everything is closed afterwards."""
    clusters: list[LocalCluster] = []

    def launch_plan(plan: Plan, **settings: Any) -> LocalCluster:
        config = EngineConfig(name="local", **{"patience_s": 60.0, "response_s": 1.0, **settings})
        clusters.append(LocalEngine(config).launch(plan, recorder))
        return clusters[-1]

    yield launch_plan
    for cluster in clusters:
        cluster.close()
