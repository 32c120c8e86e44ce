"""Stacks made again from frames that are stored once, against the stacks that went in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from made_up_rows import ENV, MadeUpLane, write_trajectory
from whorl.replay.frames import as_they_are
from whorl.replay.rows import RowRing, in_one_column, row_layout
from whorl.types import Arrays, ObservationLeaf

FRAMES, CHANNELS, SIZE = 3, 2, (2, 1)
events = st.sampled_from(["step", "step", "step", "end", "fault"])
scripts = st.lists(st.lists(events, min_size=60, max_size=60), min_size=2, max_size=2)


def spec_of(padding):
    leaf = ObservationLeaf("obs", "image", (FRAMES * CHANNELS, *SIZE), "uint8", 0, 255, frames=FRAMES, padding=padding)
    return replace(ENV, observation=(leaf,))


class Stacking:
    """A lane's newest frames, as an environment would stack them."""

    def __init__(self, padding: str) -> None:
        self.padding, self.stack = padding, np.zeros((FRAMES, CHANNELS, *SIZE), np.uint8)

    def see(self, frame: np.ndarray, first: bool) -> np.ndarray:
        if first:
            self.stack[:] = frame if self.padding == "reset" else 0
        self.stack[:-1] = self.stack[1:].copy()
        self.stack[-1] = frame
        return self.stack.reshape(-1, *SIZE).copy()


def stacked(trajectory: Arrays, lanes: list[Stacking]) -> Arrays:
    """The trajectory with images instead of vectors. The bootstrap row comes again as the next trajectory's first."""
    rows = len(trajectory["first"])
    images = np.zeros((rows, len(lanes), FRAMES * CHANNELS, *SIZE), np.uint8)
    for row in range(rows):
        for column, lane in enumerate(lanes):
            before = lane.stack.copy()
            frame = (trajectory["obs/obs"][row, column].sum() * 7 + np.arange(CHANNELS * 2)).astype(np.uint8)
            images[row, column] = lane.see(frame.reshape(CHANNELS, *SIZE), trajectory["first"][row, column])
            if row == rows - 1:
                lane.stack = before
    return {**trajectory, "obs/obs": images}


@pytest.mark.parametrize("padding", ["reset", "zero"])
@pytest.mark.parametrize("way", ["in order", "late in order", "apart", "one column"])
@given(script=scripts, n_step=st.integers(1, 3))
def test_what_is_drawn_is_what_whole_stacks_give(padding, way, script, n_step):
    spec = spec_of(padding)
    lanes, stacks = [MadeUpLane(i, list(script[i])) for i in range(2)], [Stacking(padding), Stacking(padding)]
    columns = 1 if way == "one column" else 2
    ring = RowRing(spec, columns, 60 // columns, n_step, 0.9)
    whole = RowRing(as_they_are(spec), columns, 60 // columns, n_step, 0.9)
    for number in range(8):
        trajectory = stacked(write_trajectory(lanes, number), stacks)
        if way == "late in order" and number == 0:
            continue  # the first rows that come may be amid an episode
        for one in (ring, whole):
            rows = one.apart(trajectory) if way in ("apart", "one column") else trajectory
            one.insert(in_one_column(rows) if way == "one column" else rows)
        compare(ring, whole)


def compare(ring: RowRing, whole: RowRing) -> None:
    """Lead rows take places, so that what is drawn is compared by what it is."""
    mine, theirs = ring.take(ring.drawable), whole.take(whole.drawable)
    count = min(len(mine.reward), len(theirs.reward))
    assert count >= len(theirs.reward) // 2
    for part in ("action", "reward", "discount"):
        np.testing.assert_array_equal(getattr(mine, part)[-count:], getattr(theirs, part)[-count:])
    for part in ("observation", "next_observation"):
        found, wanted = getattr(mine, part)["obs"][-count:], getattr(theirs, part)["obs"][-count:]
        # The next observation of a terminated step counts for nothing, and may be another episode's.
        matters = np.ones(count, bool) if part == "observation" else mine.discount[-count:] > 0
        np.testing.assert_array_equal(found[matters], wanted[matters])


def test_each_frame_is_stored_once():
    spec = replace(ENV, observation=(ObservationLeaf("obs", "image", (4, 84, 84), "uint8", 0, 255, frames=4),))
    assert row_layout(spec, 1, 1000).size_bytes < 0.26 * row_layout(as_they_are(spec), 1, 1000).size_bytes
