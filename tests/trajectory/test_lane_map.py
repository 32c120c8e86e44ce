"""Lanes are cut evenly, or refused with the nearest numbers that work."""

from __future__ import annotations

import pytest

from whorl.config.schema import Resources
from whorl.errors import ConfigError
from whorl.trajectory.lanes import LaneMap, check_groups


def test_everybody_has_contiguous_lanes():
    lanes = LaneMap.from_resources(Resources(actors=4, envs_per_actor=3, learners=2, shards=6))
    assert [list(lanes.lanes_of_actor(i)) for i in range(4)] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    assert [list(lanes.actors_of_learner(i)) for i in range(2)] == [[0, 1], [2, 3]]
    assert [lanes.learner_of_actor(i) for i in range(4)] == [0, 0, 1, 1]
    assert [list(lanes.shards_of_learner(i)) for i in range(2)] == [[0, 1, 2], [3, 4, 5]]
    assert lanes.lanes_per_shard == 2


def test_trajectories_of_an_update_are_shared_out_evenly():
    with pytest.raises(ConfigError, match=r"workflow\.trajectories_per_update=4"):
        LaneMap.from_resources(Resources(actors=2, learners=2), trajectories=3)


@pytest.mark.parametrize(
    ("resources", "suggestion"),
    [
        (Resources(actors=2, learners=2, shards=3), "resources.shards=4"),
        (Resources(actors=1, envs_per_actor=8, shards=3), "such as 9"),
    ],
)
def test_what_does_not_divide_is_refused_with_what_would(resources: Resources, suggestion: str):
    with pytest.raises(ConfigError, match=suggestion):
        LaneMap.from_resources(resources)


def test_groups_may_be_uneven_where_a_workflow_bears_it():
    for actors, learners in ((5, 2), (7, 3), (2, 4), (32, 5)):
        resources = Resources(actors=actors, learners=learners)
        lanes = LaneMap.from_resources(resources)
        assert lanes.trajectories == -(-actors // learners)
        groups = [list(lanes.actors_of_learner(learner)) for learner in range(learners)]
        assert [actor for group in groups for actor in group] == list(range(actors))
        assert max(map(len, groups)) - min(map(len, groups)) == 1
        assert [lanes.learner_of_actor(actor) for actor in range(actors)] == [
            learner for learner, group in enumerate(groups) for _ in group
        ]
        with pytest.raises(ConfigError, match=f"use --actors {-(-actors // learners) * learners}$"):
            check_groups(resources)


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
