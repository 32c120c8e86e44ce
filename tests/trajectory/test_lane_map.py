"""Lanes are cut evenly, or refused with the nearest numbers that work."""

from __future__ import annotations

import pytest

from whorl.config.schema import Resources
from whorl.errors import ConfigError
from whorl.trajectory.lanes import LaneMap


def test_everybody_has_contiguous_lanes():
    lanes = LaneMap.from_resources(Resources(actors=4, envs_per_actor=3, learners=2, shards=6))
    assert [list(lanes.lanes_of_actor(i)) for i in range(4)] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    assert [list(lanes.actors_of_learner(i)) for i in range(2)] == [[0, 1], [2, 3]]
    assert [lanes.learner_of_actor(i) for i in range(4)] == [0, 0, 1, 1]
    assert [list(lanes.shards_of_learner(i)) for i in range(2)] == [[0, 1, 2], [3, 4, 5]]
    assert lanes.lanes_per_shard == 2


@pytest.mark.parametrize(
    ("resources", "suggestion"),
    [
        (Resources(actors=3, learners=2), "--actors 4"),
        (Resources(actors=1, learners=2), "--actors 2"),
        (Resources(actors=2, learners=2, shards=3), "resources.shards=4"),
        (Resources(actors=1, envs_per_actor=8, shards=3), "such as 9"),
    ],
)
def test_what_does_not_divide_is_refused_with_what_would(resources: Resources, suggestion: str):
    with pytest.raises(ConfigError, match=suggestion):
        LaneMap.from_resources(resources)


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        (Resources(actors=10**15, envs_per_actor=1), "use at most 65536"),
        (Resources(actors=1, envs_per_actor=10**15), "use at most 1048576"),
    ],
)
def test_absurd_numbers_are_refused(resources: Resources, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        LaneMap.from_resources(resources)
