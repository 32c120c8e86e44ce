"""How long a step may take is learnt from resets, too."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from env_helpers import drain
from gymnasium.envs.classic_control.pendulum import PendulumEnv

from whorl.config.schema import EnvConfig
from whorl.envs.contract import LaneState
from whorl.envs.lanes import ScalarLanes
from whorl.envs.probe import probe_env


class DeadlineClock:
    """Remembers the last deadline."""

    deadline_s = 0.0

    def enter(self, phase: Any, deadline_s: float = 0.0, where: int = 0) -> None:
        self.deadline_s = deadline_s


def test_a_reset_that_takes_much_longer_than_steps_is_no_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    config = EnvConfig(id="Pendulum-v1")
    spec = probe_env(config).spec
    reset = PendulumEnv.reset

    def slow_reset(self: PendulumEnv, **arguments: Any) -> Any:
        time.sleep(0.75)
        return reset(self, **arguments)

    monkeypatch.setattr(PendulumEnv, "reset", slow_reset)
    clock = DeadlineClock()
    lanes = ScalarLanes(config, spec, range(1), 1, clock)
    drain(lanes.start([LaneState(0)]))
    for _ in range(25):
        lanes.send(np.zeros((1, 1), np.float32))
        lanes.receive()
    lanes.close()
    assert 20 * 0.75 < clock.deadline_s < 100
