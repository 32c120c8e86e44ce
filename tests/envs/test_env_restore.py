"""Lanes that are lost and come back where they were."""

from dataclasses import replace

import numpy as np
import pytest
from env_helpers import drain, row_of, trace

from whorl.config.schema import EnvConfig
from whorl.envs.contract import LaneState
from whorl.envs.lanes import ScalarLanes, make_lanes
from whorl.envs.probe import probe_env
from whorl.envs.spaces import random_actions
from whorl.errors import BadInputError

WALK = "env_helpers:Walk"


def walk_with_ledger(lanes, actions: np.ndarray, states: list[LaneState] | None = None):
    """Step, and keep the ledger as an actor does; states after the last row."""
    states = states or [LaneState(lane) for lane in lanes.lanes]
    rows = drain(lanes.start(states))
    taken = [list(state.actions) for state in states]
    for action in actions:
        before = rows.valid.copy()
        lanes.send(action)
        lanes.receive()
        for index, state in enumerate(states):
            if rows.first[index]:
                state.episode += 1
                taken[index] = []
            elif before[index]:
                taken[index].append(action[index].copy())
    snapshots = lanes.snapshots()
    for index, state in enumerate(states):
        state.actions = np.array(taken[index], lanes.spec.action.dtype).reshape(-1, *lanes.spec.action.shape)
        state.ended = not rows.valid[index]
        state.observation = {name: block[index].copy() for name, block in rows.observation.items()}
        state.snapshot = snapshots[index] if snapshots else None
    assert [state.episode for state in states] == list(lanes.episodes)
    return states


@pytest.mark.parametrize(
    "config",
    [
        EnvConfig(),
        EnvConfig(id="Pendulum-v1", max_episode_steps=23),
        EnvConfig(id="whorl/Dict-v0"),
        EnvConfig(id=WALK, restore="replay"),
        EnvConfig(id=WALK),
    ],
    ids=["cartpole", "pendulum", "dict", "replay", "snapshot"],
)
@pytest.mark.parametrize("rows", [0, 1, 17, 60])
def test_a_rebuilt_lane_goes_on_as_if_nothing_had_happened(config: EnvConfig, rows: int) -> None:
    spec = probe_env(config).spec
    actions = random_actions(spec.action, 120 * 3, 1).reshape(120, 3, *spec.action.shape)
    undisturbed = trace(make_lanes(config, spec, range(3), 5), actions)
    states = walk_with_ledger(make_lanes(config, spec, range(3), 5), actions[:rows])
    again = make_lanes(config, spec, range(3), 5)
    assert trace(again, actions[rows:], states) == undisturbed[rows:]
    assert again.exact


def test_the_current_row_is_the_ledgers() -> None:
    config = EnvConfig(id="whorl/Chain-v0")
    spec = probe_env(config).spec
    right = np.ones((4, 1), np.int64)
    for rows, valid, first in ((0, True, True), (3, True, False), (4, False, False)):
        (state,) = walk_with_ledger(ScalarLanes(config, spec, range(1), 5), right[:rows])
        got = drain(ScalarLanes(config, spec, range(1), 5).start([state]))
        assert (bool(got.valid[0]), bool(got.first[0])) == (valid, first)
        assert got.observation["obs"][0] == rows


def test_restore_modes_are_probed() -> None:
    assert probe_env(EnvConfig(id=WALK)).spec.restore == "snapshot"
    assert probe_env(EnvConfig(id=WALK, restore="none")).spec.restore == "none"
    assert probe_env(EnvConfig(id=WALK, kwargs={"kind": "stateless"})).spec.restore == "replay"
    assert probe_env(EnvConfig(id=WALK, kwargs={"kind": "forgetful"})).spec.restore == "replay"
    with pytest.raises(BadInputError, match="get_state"):
        probe_env(EnvConfig(id="CartPole-v1", restore="snapshot"))


@pytest.mark.parametrize("vector_form", [False, True])
@pytest.mark.parametrize("why", ["none", "skip", "mismatch", "too_short"])
def test_what_cannot_be_brought_back_begins_the_next_episode(why: str, vector_form: bool) -> None:
    config = EnvConfig()
    spec = replace(probe_env(config).spec, vector_form=vector_form, restore="none" if why == "none" else "replay")
    actions = np.random.default_rng(0).integers(0, 2, (5, 2))
    states = walk_with_ledger(make_lanes(config, spec, range(2), 5), actions)
    if why == "skip":
        states[1].skip = True
    elif why == "mismatch":
        states[1].observation["obs"][0] += 1
    elif why == "too_short":
        states[1].actions = states[1].actions[:-1]
    if why == "none":
        states[0].ended = True  # a final observation needs no environment
    lanes = make_lanes(config, spec, range(2), 5)
    rows = drain(lanes.start(states))
    assert not lanes.exact
    assert lanes.episodes == [0, 1]
    assert rows.first.tolist() == [False, True]
    assert rows.observation["obs"][0].tobytes() == states[0].observation["obs"].tobytes()
    fresh = make_lanes(config, spec, range(2), 5)
    begun = drain(fresh.start([LaneState(0, episode=1), LaneState(1, episode=1)]))
    assert rows.observation["obs"][1].tobytes() == begun.observation["obs"][1].tobytes()


def test_an_environment_that_is_random_without_its_seed_is_not_exact() -> None:
    config = EnvConfig(id=WALK, kwargs={"kind": "random"}, restore="replay")
    spec = probe_env(config).spec
    states = walk_with_ledger(ScalarLanes(config, spec, range(1), 5), np.zeros((5, 1), np.int64))
    lanes = ScalarLanes(config, spec, range(1), 5)
    drain(lanes.start(states))
    assert not lanes.exact


def test_time_limits_are_part_of_a_snapshot() -> None:
    """Gymnasium's TimeLimit counts outside the environment; a restored lane is cut at the same step."""
    import gymnasium

    gymnasium.register("WhorlTestWalk-v0", entry_point="env_helpers:Walk", max_episode_steps=12, kwargs={"length": 99})
    try:
        config = EnvConfig(id="WhorlTestWalk-v0")
        spec = probe_env(config).spec
        assert (spec.restore, spec.max_episode_steps) == ("snapshot", 12)
        actions = np.zeros((20, 1), np.int64)
        states = walk_with_ledger(ScalarLanes(config, spec, range(1), 5), actions[:8])
        lanes = ScalarLanes(config, spec, range(1), 5)
        rows = drain(lanes.start(states))
        cut = []
        for action in actions[8:]:
            lanes.send(action)
            cut.append(row_of(rows, lanes.receive(), 0)[5])
        assert cut.index(True) == 3
    finally:
        del gymnasium.registry["WhorlTestWalk-v0"]
