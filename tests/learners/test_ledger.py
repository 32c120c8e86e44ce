"""The ledger knows where every lane stands, whatever happened in the rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from made_up_rows import AGENT, ENV, MadeUpLane, write_trajectory
from whorl.learners.ledger import Ledger, cut_saved, join_saved
from whorl.trajectory.orders import pack_lane_states, unpack_lane_states

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
    episodes, faults, env_steps = [], 0, 0
    for number in range(5):
        accepted = ledger.accept(write_trajectory(lanes, number))
        episodes += accepted.episodes
        faults += accepted.faults
        env_steps += accepted.env_steps
        assert_stands_where(ledger, lanes)
    assert ledger.number == 5
    assert faults == sum(lane.faults for lane in lanes)
    assert env_steps == sum(lane.steps for lane in lanes)
    for lane in lanes:
        mine = [(end.episode_return, end.length) for end in episodes if end.lane == lane.lane]
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


def test_discounted_returns_restart_with_each_episode():
    lane = MadeUpLane(0, ["step", "end"])
    trajectory = write_trajectory([lane], 0)
    trajectory["reward"][:, 0] = [1, 2, 0, 1, 1, 1]
    agent = replace(AGENT, wants_discounted_return=True)
    trace = Ledger(range(1), ENV, agent).accept(trajectory).discounted_return[:, 0]
    # Row 2 is the final-observation row, row 3 the first of the next episode.
    assert np.allclose(trace, [1, 2.9, 2.61, 1, 1.9, 2.71])


def test_orders_survive_packing():
    states = [MadeUpLane(i, ["end"] if i else []).state() for i in range(3)]
    states[1].snapshot, states[2].observation = b"abc", None
    there = unpack_lane_states(pack_lane_states(states, ENV), ENV)
    assert [state.snapshot for state in there] == [None, b"abc", None]
    assert there[2].observation is None
