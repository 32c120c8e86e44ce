"""Sequences drawn from the ring, against the rows that went in."""

from __future__ import annotations

import numpy as np
import pytest

from made_up_rows import AGENT, ENV, MadeUpLane, write_trajectory
from whorl.errors import CheckpointError
from whorl.replay.sequences import SequenceReplay, SequenceRing
from whorl.types import Arrays, Field

LENGTH, LEAD, TAIL, LANES = AGENT.rows, 3, 2, 3
STATE = (Field("h", (2,), "float32"),)


def trajectories(count: int) -> list[Arrays]:
    lanes = [MadeUpLane(i, ["step", "step", "end", "fault"] * 100) for i in range(LANES)]
    made = [write_trajectory(lanes, number) for number in range(count)]
    for number, trajectory in enumerate(made):
        trajectory["state/h"] = np.full((LANES, 2), number, np.float32) + np.arange(LANES)[:, None] / 10
    return made


def ring(rows: int = 6 * LENGTH) -> SequenceRing:
    return SequenceRing(ENV, LANES, rows, length=LENGTH, lead=LEAD, tail=TAIL, state=STATE)


@pytest.mark.parametrize("count", [2, 5, 6, 17])
def test_sequences_are_the_rows_that_went_in(count: int) -> None:
    made, stored = trajectories(count), ring()
    for trajectory in made:
        stored.insert(trajectory)
    whole = {name: np.concatenate([t[name][:LENGTH] for t in made]) for name in ("obs/obs", "action", "first", "valid")}
    span = LEAD + LENGTH + TAIL
    begins = [k for k in range(count) if k >= count - 6 and k * LENGTH + span <= count * LENGTH]
    expected = [(k, lane) for k in begins for lane in range(LANES)]
    indices = stored.drawable
    assert indices.tolist() == [k % 6 * LANES + lane for k, lane in expected]
    drawn = stored.take(indices)
    for i, (k, lane) in enumerate(expected):
        rows = slice(k * LENGTH, k * LENGTH + span)
        for name, array in (("obs/obs", drawn.observation["obs"]), ("action", drawn.action), ("first", drawn.first)):
            assert np.array_equal(array[:, i], whole[name][rows, lane]), (name, k, lane)
        assert drawn.state["h"][i].tolist() == pytest.approx([k + lane / 10] * 2)
        assert stored.generations(indices[i : i + 1])[0] == k // 6


def test_insert_says_what_comes_and_what_goes() -> None:
    stored, alive = ring(), set()
    for trajectory in trajectories(20):
        new, old = stored.insert(trajectory)
        assert set(old.tolist()) <= alive
        alive = (alive - set(old.tolist())) | set(new.tolist())
        assert alive == set(stored.drawable.tolist())


@pytest.mark.parametrize("alpha", [0.0, 0.7])
def test_saved_and_loaded_it_goes_on_the_same(alpha: float) -> None:
    def fresh(rows: int = 6 * LENGTH) -> SequenceReplay:
        return SequenceReplay(ENV, LANES, rows, length=LENGTH, lead=LEAD, tail=TAIL, state=STATE, alpha=alpha)

    replay, other, made = fresh(), fresh(), trajectories(10)
    for trajectory in made[:9]:
        replay.insert(trajectory)
    drawn = replay.draw(np.arange(8) / 8)
    replay.set_priorities(drawn.indices, drawn.generations, np.arange(8.0))
    saved = {piece: {k: v.copy() for k, v in arrays.items()} for piece, arrays in replay.save().items()}
    other.load(saved)
    for each in (replay, other):
        each.insert(made[9])
    one, two = (each.draw(np.linspace(0, 0.99, 16), 0.5) for each in (replay, other))
    assert np.array_equal(one.indices, two.indices)
    assert np.array_equal(one.weights, two.weights)
    assert np.array_equal(one.transitions.reward, two.transitions.reward)
    assert np.array_equal(one.transitions.state["h"], two.transitions.state["h"])
    with pytest.raises(CheckpointError, match="does not fit"):
        fresh(9 * LENGTH).load(saved)


def test_what_cannot_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot hold sequences"):
        ring(LENGTH + 1)
    with pytest.raises(ValueError, match=f"of {LENGTH} rows is expected"):
        ring().insert({"reward": np.zeros((LENGTH + 1, LANES))})
