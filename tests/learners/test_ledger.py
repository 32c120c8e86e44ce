"""The ledger knows where every lane stands, whatever happened in the rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from made_up_rows import AGENT, ENV, MadeUpLane, write_trajectory
from whorl.learners.ledger import Ledger, cut_saved, join_saved
from whorl.trajectory.orders import left_out, pack_lane_states, unpack_lane_states, within_limit

scripts = st.lists(
    st.lists(st.sampled_from(["step", "step", "step", "end", "fault"]), min_size=30, max_size=30),
    min_size=4,
    max_size=4,
)


def assert_stands_where(ledger: Ledger, lanes: list[MadeUpLane]) -> None:
    for mine, lane in zip(unpack_lane_states(ledger.order(), ENV), lanes, strict=True):
        wanted = lane.state()
        assert (mine.lane, mine.episode, mine.ended) == (wanted.lane, wanted.episode, wanted.ended)
        assert mine.actions.tolist() == wanted.actions.tolist()
        assert mine.observation["obs"].tolist() == wanted.observation["obs"].tolist()


@given(scripts)
def test_it_follows_every_lane_and_counts_what_ended(script):
    lanes = [MadeUpLane(i, list(script[i])) for i in range(4)]
    ledger = Ledger(range(4), ENV, AGENT)
    episodes, faults = [], 0
    for number in range(5):
        accepted = ledger.accept(write_trajectory(lanes, number))
        episodes += accepted.ended
        faults += accepted.faults
        assert_stands_where(ledger, lanes)
    assert ledger.number == 5
    assert faults == sum(lane.faults for lane in lanes)
    for lane in lanes:
        mine = [(end.episode_return, end.length) for end in episodes if end.column == lane.lane]
        assert mine == lane.finished


@given(scripts, st.integers(1, 3))
def test_saved_joined_cut_and_loaded_it_goes_on_the_same(script, cut):
    lanes = [MadeUpLane(i, list(script[i])) for i in range(4)]
    whole = Ledger(range(4), ENV, AGENT)
    for number in range(2):
        whole.accept(write_trajectory(lanes, number))
    parts = []
    for part_lanes in (range(cut), range(cut, 4)):
        part = Ledger(part_lanes, ENV, AGENT)
        part.load(cut_saved(whole.save(), part_lanes))
        parts.append(part)
    rejoined = join_saved([part.save() for part in parts])
    for name, array in whole.save().items():
        assert np.array_equal(array, rejoined[name]), name


def test_a_copy_goes_ahead_without_the_original():
    lanes = [MadeUpLane(i, ["step", "end"] * 9) for i in range(2)]
    ledger = Ledger(range(2), ENV, AGENT)
    ledger.accept(write_trajectory(lanes, 0))
    before = {name: array.copy() for name, array in ledger.save().items()}
    ahead = ledger.copy()
    ahead.accept(write_trajectory(lanes, 1))
    assert ahead.number == 2
    for name, array in ledger.save().items():
        assert np.array_equal(array, before[name]), name
    assert_stands_where(ahead, lanes)


def test_a_lane_that_was_given_up_is_told_to_begin_a_later_episode_once():
    lanes = [MadeUpLane(i, []) for i in range(2)]
    ledger = Ledger(range(2), ENV, AGENT)
    ledger.accept(write_trajectory(lanes, 0))
    ledger.give_up(1, times=2)
    assert [state.skip for state in unpack_lane_states(ledger.order(), ENV)] == [0, 2 * (1 + AGENT.rows)]
    ledger.accept(write_trajectory(lanes, 1))
    assert not ledger.order()["skip"].any()


def test_orders_survive_packing():
    states = [MadeUpLane(i, ["end"] if i else []).state() for i in range(3)]
    states[1].snapshot, states[2].observation = b"abc", None
    there = unpack_lane_states(pack_lane_states(states, ENV), ENV)
    assert [state.snapshot for state in there] == [None, b"abc", None]
    assert there[2].observation is None


def test_a_lane_whose_actions_nobody_knows_begins_an_episode_that_nobody_has_begun():
    lanes = [MadeUpLane(0, ["step"]), MadeUpLane(1, ["end"] + ["step"] * 3 + ["end"]), MadeUpLane(2, [])]
    ledger = Ledger(range(3), ENV, AGENT)
    assert ledger.leave_unfinished(0) == 0
    assert not ledger.order()["skip"].any()  # a fresh run begins with the first episodes
    end = write_trajectory(lanes, 4)
    ledger.stand_at(end)
    assert ledger.number == 5
    assert ledger.leave_unfinished(0) == 2  # the second lane's has ended
    assert ledger.order()["skip"].tolist() == [1 + AGENT.rows] * 3
    assert not ledger.order()["episode_length"].any()  # counted: the next trajectory is not to tell of them again
    ledger.leave_unfinished(2)  # two were lost there: each may have begun as many as there are rows
    assert ledger.order()["skip"].tolist() == [2 * (1 + AGENT.rows)] * 3
    assert ledger.order()["episode"].tolist() == [lane.episode for lane in lanes]


def test_a_lane_with_a_snapshot_goes_on_from_it():
    ledger = Ledger(range(2), ENV, AGENT)
    end = write_trajectory([MadeUpLane(i, []) for i in range(2)], 0)
    end["end/snapshot"] = np.array([[7, 8, 9], [0, 0, 0]], np.uint8)
    end["end/snapshot_length"] = np.array([3, 0])
    ledger.stand_at(end)
    assert ledger.leave_unfinished(1) == 1
    first, second = unpack_lane_states(ledger.order(), ENV)
    assert (first.skip, first.snapshot) == (0, bytes([7, 8, 9]))
    assert second.skip == 1 + AGENT.rows


@pytest.mark.parametrize(
    ("restore", "counts", "skip"),
    [("replay", [5, 0, 20, 1], [0, 1, 0, 0]), ("snapshot", [5, 1, 20, 1], [0, 0, 0, 0])],
)
def test_an_order_that_is_too_large_goes_without_the_longest_episodes(
    restore: str, counts: list[int], skip: list[int]
) -> None:
    """But for those whose actions nobody needs: the second has a snapshot, the last has ended."""
    states = [MadeUpLane(i, []).state() for i in range(4)]
    for state, length in zip(states, (5, 50, 20, 30), strict=True):
        state.actions = np.arange(length) + 100 * state.lane
    states[1].snapshot, states[3].ended = b"abc", True
    order = pack_lane_states(states, ENV)
    assert within_limit(order, ENV, 105 * 8) is order
    env = replace(ENV, restore=restore)
    short = within_limit(order, env, 30 * 8)
    there = unpack_lane_states(short, env)
    assert [len(state.actions) for state in there] == counts
    assert [state.skip for state in there] == skip
    assert [state.actions.tolist() for state in there[::2]] == [states[0].actions.tolist(), states[2].actions.tolist()]
    assert there[3].actions.tolist() == [329]
    assert left_out(order) == ""
    assert left_out(short).startswith("lane 1: an episode too long") == any(skip)
    assert within_limit(short, env, 30 * 8) is short
    assert within_limit({}, env) == {}
