"""The epsilon ladder, with the numbers of Horgan et al. (2018): 0.4 and 7."""

from __future__ import annotations

import numpy as np
import pytest

from whorl.actors.ladder import Ladder, ladder_powers
from whorl.agents.registry import get_agent
from whorl.types import ActionSpec, EnvSpec, ObservationLeaf

ENV = EnvSpec(
    "t",
    (ObservationLeaf("obs", "vector", (5,), "float32"),),
    ActionSpec("discrete", (), "int64", (3,)),
    "replay",
    False,
    100,
)


def test_eight_lanes() -> None:
    epsilons = np.float32(0.4) ** ladder_powers(range(8), 8, 7.0)
    literal = [0.4, 0.16, 0.064, 0.0256, 0.01024, 0.004096, 0.0016384, 0.00065536]
    assert epsilons.tolist() == pytest.approx(literal, rel=1e-5)


def test_lanes_of_an_actor_are_a_part_of_the_whole() -> None:
    whole = ladder_powers(range(8), 8, 7.0)
    assert ladder_powers(range(2, 5), 8, 7.0).tolist() == whole[2:5].tolist()
    assert ladder_powers(range(1), 1, 7.0).tolist() == [1.0]
    assert ladder_powers(range(3), 3, 0.0).tolist() == [1.0, 1.0, 1.0]


def test_a_policy_explores_in_each_lane_as_it_says() -> None:
    """Epsilon 1 for all at first; later by the lane, and always from the newest weights."""
    agent = get_agent("dqn")
    config = agent.config()
    policy, spec = agent.policy(config, ENV), agent.spec(config, ENV)
    buffer = spec.weights.allocate()
    views = spec.weights.views(buffer)
    base = views["epsilon"]
    ladder = Ladder(views, spec.exploration, np.array([1, 4], np.float32))
    base[...] = 1.0
    ladder.spread()
    assert views["epsilon"].tolist() == [1.0, 1.0]
    base[...] = 0.5
    ladder.spread()
    assert views["epsilon"].tolist() == [0.5, 0.0625]
    # All values are 0, so that the greedy action is 0; noise 0.3 explores (action 2) in the first lane only.
    noise = np.array([[0.3, 0.99], [0.3, 0.99]], np.float32)
    acted = policy.act(views, {"obs": np.zeros((2, 5), np.float32)}, {}, np.zeros(2, np.bool_), noise)
    assert acted.actions.tolist() == [2, 0]
