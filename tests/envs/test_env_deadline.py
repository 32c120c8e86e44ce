"""How long a step may take is learnt from resets, too."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from env_helpers import drain
from gymnasium.envs.classic_control.pendulum import PendulumEnv

from whorl.config.schema import EnvConfig
from whorl.envs import vector
from whorl.envs.contract import LaneState
from whorl.envs.lanes import ScalarLanes
from whorl.envs.probe import probe_env
from whorl.envs.vector import VectorLanes


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


@pytest.mark.parametrize(("step_timeout_s", "allowed_s"), [(0.0, 300.0), (0.5, 300.0), (200.0, 400.0)])
def test_the_copies_of_a_vector_form_may_take_longer_to_make_than_to_step(
    monkeypatch: pytest.MonkeyPatch, step_timeout_s: float, allowed_s: float
) -> None:
    clock = DeadlineClock()
    seen: list[float] = []
    make_form = vector.make_form

    def note_and_make(*arguments: Any) -> Any:
        seen.append(clock.deadline_s)
        return make_form(*arguments)

    monkeypatch.setattr(vector, "make_form", note_and_make)
    config = EnvConfig(id="CartPole-v1", step_timeout_s=step_timeout_s)
    lanes = VectorLanes(config, probe_env(config).spec, range(2), 1, clock)
    assert seen == [allowed_s]
    assert clock.deadline_s == 0.0
    lanes.close()
