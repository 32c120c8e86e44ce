"""What an actor stamps on its trajectories lets anybody count, whatever they have seen before."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from made_up_rows import AGENT, ENV, MadeUpLane, write_trajectory
from whorl.actors.stamps import Stamps
from whorl.learners.ledger import Ledger
from whorl.trajectory.episodes import episodes_of

scripts = st.lists(
    st.lists(st.sampled_from(["step", "step", "step", "end", "fault"]), min_size=40, max_size=40),
    min_size=3,
    max_size=3,
)


def begun(lanes: int, spec=AGENT) -> Stamps:
    stamps = Stamps(spec)
    stamps.begin({**Ledger(range(lanes), ENV, spec).order(), "handed_over": 100})
    return stamps


given_up = st.sets(st.tuples(st.integers(0, 2), st.integers(1, 5)))


@given(scripts, given_up)
def test_each_trajectory_alone_tells_the_episodes_that_ended_in_it(script, given_up):
    """Also that one was given up before it, as a replaced actor does whose environment cannot be brought back."""
    lanes = [MadeUpLane(i, list(script[i])) for i in range(3)]
    stamps, ended, faults = begun(3), [], 0
    for number in range(6):
        for lane in lanes:
            if (lane.lane, number) in given_up:
                lane.give_up()
        trajectory = write_trajectory(lanes, number)
        for name, array in trajectory.items():
            if name.startswith(("begin/", "end/episode_")):
                array[:] = 99
        stamps.stamp(trajectory)
        seen = episodes_of(trajectory)
        ended += seen.ended
        faults += seen.faults
    for i, lane in enumerate(lanes):
        assert [(end.episode_return, end.length) for end in ended if end.column == i] == lane.finished
    assert faults == sum(lane.faults for lane in lanes)
    assert trajectory["handed_over"][0] == 100 + sum(lane.steps for lane in lanes)


def test_discounted_returns_restart_with_each_episode_and_go_on_with_the_next_trajectory():
    spec = replace(AGENT, wants_discounted_return=True)
    stamps, lane = begun(1, spec), MadeUpLane(0, ["step", "end"])
    traces = []
    for number in range(2):
        trajectory = write_trajectory([lane], number)
        trajectory["reward"][:, 0] = [1, 2, 0, 1, 1, 1]
        trajectory["discounted_return"] = np.zeros((AGENT.rows, 1), np.float32)
        stamps.stamp(trajectory)
        traces.append(trajectory["discounted_return"][:, 0])
    # Row 2 is the final-observation row, row 3 the first of the next episode.
    assert np.allclose(traces[0], [1, 2.9, 2.61, 1, 1.9, 2.71])
    assert np.allclose(traces[1][:2], [0.9 * 2.71 + 1, 0.9 * (0.9 * 2.71 + 1) + 2])


def test_lanes_that_are_completed_apart_keep_their_own_sums():
    stamps, lanes = begun(2), [MadeUpLane(0, []), MadeUpLane(1, [])]
    for number, lane in enumerate((0, 1, 1)):
        trajectory = write_trajectory([lanes[lane]], number)
        stamps.stamp(trajectory, slice(lane, lane + 1))
        assert trajectory["end/episode_length"].tolist() == [len(lanes[lane].actions)]
