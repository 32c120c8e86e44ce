"""Atari: one console and many are the same, bit for bit; lives, scores and stacks are what they should be."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as gymnasium_check

from whorl.config.schema import EnvConfig
from whorl.envs.atari.copies import Copies
from whorl.envs.atari.settings import Settings
from whorl.envs.contract import LaneState
from whorl.envs.lane import Lane
from whorl.envs.lanes import ScalarLanes, make_lanes
from whorl.envs.probe import plain_spec, probe_env
from whorl.envs.registry import make_env
from whorl.envs.spaces import random_actions
from whorl.envs.vector import VectorLanes
from whorl.errors import BadInputError, MissingExtraError
from whorl.types import Array, EnvSpec

pytest.importorskip("ale_py")
BREAKOUT = "atari/Breakout-v0"
LIVES = {"episodic_life": True, "noop_max": 5}


def spec_of(config: EnvConfig, **changes: Any) -> EnvSpec:
    env = make_env(config.id, config.kwargs)
    spec = plain_spec(config, env)
    env.close()
    return EnvSpec(**{**vars(spec), "vector_form": True, **changes})


def run(generator: Any) -> Any:
    try:
        while True:
            next(generator)
    except StopIteration as done:
        return done.value


def play(lanes: Any, states: list[LaneState], actions: Array) -> list[tuple[Any, ...]]:
    """Everything that rows and outcomes say."""
    rows = run(lanes.start(states))
    told = []
    for action in actions:
        seen = (rows.observation["obs"].copy(), rows.valid.copy(), rows.first.copy())
        lanes.send(action)
        run(lanes.arrival())
        outcome = lanes.receive()
        told.append((*seen, *(np.array(part) for part in vars(outcome).values())))
    return told


def assert_same(one: list[tuple[Any, ...]], other: list[tuple[Any, ...]]) -> None:
    assert len(one) == len(other)
    for row, (a, b) in enumerate(zip(one, other, strict=True)):
        for part, (mine, theirs) in enumerate(zip(a, b, strict=True)):
            np.testing.assert_array_equal(mine, theirs, err_msg=f"row {row}, part {part}")


@pytest.mark.parametrize(
    "kwargs",
    [LIVES, {"repeat_action_probability": 0.25, "max_frames": 160, "clip_rewards": False}],
    ids=["lives", "sticky"],
)
def test_many_consoles_are_single_ones_whatever_their_neighbours_do(kwargs: dict[str, Any]) -> None:
    config = EnvConfig(id=BREAKOUT, kwargs=kwargs)
    spec = spec_of(config)
    actions = random_actions(spec.action, 3 * 160, 5).reshape(160, 3)
    together, alone = VectorLanes(config, spec, range(3), 7), ScalarLanes(config, spec, range(1, 2), 7)
    try:
        many = play(together, [LaneState(lane) for lane in range(3)], actions)
        single = play(alone, [LaneState(1)], actions[:, 1:2])
        assert_same([tuple(part[1:2] for part in row) for row in many], single)
    finally:
        together.close()
        alone.close()
    ends = sum(int((row[4] | row[5]).sum()) for row in many)
    assert ends >= 3
    observations = [row[0] for row in many]
    assert len({stack.tobytes() for stack in observations[0]}) > 1  # by their seeds
    check_stacks(many)


def check_stacks(told: list[tuple[Any, ...]]) -> None:
    """Rows follow on each other within an episode, and each begins with zeros: a replay may store frames once."""
    firsts = 0
    for before, row in zip([None, *told], told, strict=False):
        for lane in range(len(row[1])):
            if row[2][lane]:
                firsts += 1
                assert not row[0][lane, :-1].any()
                assert row[0][lane, -1].any()
            elif before is not None and before[1][lane]:
                np.testing.assert_array_equal(row[0][lane, :-1], before[0][lane, 1:])
    assert firsts > 3
