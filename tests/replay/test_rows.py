"""Transitions drawn from the ring, against a slow walk over the same rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from made_up_rows import AGENT, ENV, MadeUpLane, write_trajectory
from whorl.replay.rows import RowRing, with_cut

DISCOUNT = 0.9
events = st.sampled_from(["step", "step", "step", "end", "fault"])
scripts = st.lists(st.lists(events, min_size=60, max_size=60), min_size=2, max_size=2)


def walk(rows: list[dict], t: int, n: int) -> tuple[float, list[float], float]:
    """(n-step return, observation to bootstrap from, its discount), by the definition."""
    total, m = 0.0, 0
    while m < n:
        row = rows[t + m]
        total += DISCOUNT**m * row["reward"]
        m += 1
        if row["terminated"]:
            return total, rows[t + m]["obs"], 0.0
        if row["truncated"] or not rows[t + m]["valid"]:
            break
    return total, rows[t + m]["obs"], DISCOUNT**m


@given(scripts, st.integers(1, 4), st.integers(12, 40), st.sets(st.tuples(st.integers(0, 1), st.integers(1, 7))))
def test_every_transition_is_what_a_slow_walk_gives(script, n_step, ring_rows, given_up):
    """``given_up``: lanes that leave their episode before a trajectory."""
    lanes = [MadeUpLane(i, list(script[i])) for i in range(2)]
    ring = RowRing(ENV, 2, ring_rows, n_step, DISCOUNT, AGENT.fields)
    history: list[list[dict]] = [[], []]
    drawable: dict[int, tuple[int, int]] = {}
    for number in range(8):
        for i in range(2):
            if (i, number) in given_up:
                lanes[i].give_up()
                history[i][-1]["valid"] &= history[i][-1]["terminated"]
        trajectory = write_trajectory(lanes, number)
        first_row = len(history[0])
        for i in range(2):
            history[i] += [
                {
                    "obs": trajectory["obs/obs"][row, i].tolist(),
                    **{k: trajectory[k][row, i] for k in ("reward", "terminated", "truncated", "valid", "action")},
                }
                for row in range(AGENT.rows)
            ]
        new, old = ring.insert(trajectory)
        for index in old.tolist():
            drawable.pop(index, None)
        for index in new.tolist():
            slot, lane = divmod(index, 2)
            row = max(r for r in range(first_row + AGENT.rows) if r % ring_rows == slot)
            drawable[index] = (row, lane)
    wanted = {(r, i) for i in range(2) for r in ring._drawable(ring.head) if history[i][r]["valid"]}
    assert set(drawable.values()) == wanted
    indices = np.array(sorted(drawable), np.int64)
    if not len(indices):
        return
    drawn = ring.take(indices)
    for k, index in enumerate(indices.tolist()):
        row, lane = drawable[index]
        total, bootstrap, discount = walk(history[lane], row, n_step)
        assert drawn.reward[k] == pytest.approx(total, rel=1e-5)
        assert drawn.next_observation["obs"][k].tolist() == bootstrap
        assert drawn.discount[k] == pytest.approx(discount)
        assert drawn.observation["obs"][k].tolist() == history[lane][row]["obs"]
        assert drawn.action[k] == history[lane][row]["action"]


def test_saved_and_loaded_it_draws_the_same():
    lanes = [MadeUpLane(i, ["step", "end", "step"] * 20) for i in range(2)]
    ring = RowRing(ENV, 2, 20, 2, DISCOUNT)
    for number in range(5):
        new, _ = ring.insert(write_trajectory(lanes, number))
    other = RowRing(ENV, 2, 20, 2, DISCOUNT)
    pieces = ring.segments()
    other.load(ring.head, {piece: {name: a.copy() for name, a in arrays.items()} for piece, arrays in pieces.items()})
    assert np.array_equal(other.drawable, ring.drawable)
    assert other.head == ring.head
    for one, two in zip(ring.take(new)[1:4:2], other.take(new)[1:4:2], strict=True):
        assert np.array_equal(one, two) if isinstance(one, np.ndarray) else one.keys() == two.keys()


def test_what_cannot_fit_is_refused():
    with pytest.raises(ValueError, match="3 rows"):
        RowRing(ENV, 2, 3, 3, DISCOUNT)


@pytest.mark.parametrize("gives_up", [False, True])
def test_segments_change_their_stamp_when_they_change_and_hardly_else(monkeypatch: pytest.MonkeyPatch, gives_up: bool):
    """A piece may yet change with the first row after it, if that gives an episode up: its stamp always does."""
    lanes = [MadeUpLane(i, ["step", "end", "step"] * 60) for i in range(2)]
    ring = RowRing(ENV, 2, 30, 2, DISCOUNT)
    row_bytes = sum(array.nbytes for array in ring.arrays.values()) // 30
    monkeypatch.setattr("whorl.replay.rows.SEGMENT_BYTES", 7 * row_bytes)
    before: dict[str, tuple[int, bytes]] = {}
    for number in range(30):
        begins_at = ring.head % 30
        for lane in lanes[:gives_up]:
            lane.give_up()
        ring.insert(write_trajectory(lanes, number))
        now = {
            piece: (int(arrays["stamp"]), b"".join(a.tobytes() for n, a in arrays.items() if n != "stamp"))
            for piece, arrays in ring.segments().items()
        }
        assert len(now) == min(5, -(-ring.head // 7))
        for piece, (stamp, content) in now.items():
            if piece in before:
                same_stamp, same_content = stamp == before[piece][0], content == before[piece][1]
                begins_after_it = begins_at == (0 if piece == "rows-004" else 7 * int(piece[-1]) + 7)
                assert same_content or not same_stamp, (number, piece)
                assert same_stamp or not same_content or begins_after_it, (number, piece)
        before = now


def test_a_cut_ends_returns_at_the_last_observation_of_a_trajectory() -> None:
    """Trajectories that do not follow on each other: three steps ahead, and never into the next one."""
    lanes = [MadeUpLane(i, ["step"] * 100) for i in range(2)]
    made = write_trajectory(lanes, 0)
    for _ in range(5):
        other = write_trajectory(lanes, 1)  # of which only the last is stored
    ring = RowRing(ENV, 2, 20, 3, 0.5)
    for trajectory in (made, other):
        ring.insert(with_cut(trajectory))
    rows = AGENT.rows
    drawn = ring.take(np.array([(rows - 1) * 2, (rows - 2) * 2 + 1]))
    assert drawn.discount.tolist() == [0.5, 0.25]
    assert drawn.reward.tolist() == [
        made["reward"][rows - 1, 0],
        made["reward"][rows - 2, 1] + 0.5 * made["reward"][rows - 1, 1],
    ]
    assert drawn.next_observation["obs"].tolist() == made["obs/obs"][rows].tolist()
    assert rows * 2 not in ring.drawable  # the cut itself
