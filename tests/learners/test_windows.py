"""Choosing windows, and the account of what became of everything that lay in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whorl.learners.shared import Draws
from whorl.learners.windows import account

WINDOWS = 32


@pytest.mark.parametrize("learners", range(2, WINDOWS + 1))
def test_as_much_is_read_twice_as_theory_says(learners: int) -> None:
    """L learners draw one of A windows each: the share that another has drawn is 1 - (A/L)(1 - (1 - 1/A)^L)."""
    rounds = 40_000 // learners
    choosers = [Draws(seed=1, rank=rank) for rank in range(learners)]
    different = sum(len({chooser.pick(range(WINDOWS), update) for chooser in choosers}) for update in range(rounds))
    expected = 1 - WINDOWS / learners * (1 - (1 - 1 / WINDOWS) ** learners)
    assert abs(1 - different / (rounds * learners) - expected) < 0.02


def test_draws_of_an_update_differ_and_are_the_same_after_a_resume() -> None:
    drawn = Draws(seed=1, rank=0)
    first = [drawn.pick(range(100), 7) for _ in range(20)]
    drawn.pick(range(100), 8)
    assert len(set(first)) > 10
    assert [drawn.pick(range(100), 7) for _ in range(20)] == first


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[list[int]], list[list[tuple[int, int]]], list[list[int]]]:
    """Env steps of each actor's trajectories; by update what was read, (actor, trajectory), and which was the newest of
    each actor when its owner looked."""
    actors = draw(st.integers(1, 3))
    streams = [draw(st.lists(st.integers(0, 5), min_size=30, max_size=30)) for _ in range(actors)]
    shown, reads, looks = [0] * actors, [], []
    for _ in range(draw(st.integers(1, 5))):
        now = [draw(st.integers(low, low + 4)) for low in shown]  # somebody read before this, somebody after
        later = [draw(st.integers(low, low + 1)) for low in now]
        reads.append(
            [
                (actor, draw(st.integers(shown[actor], later[actor])))
                for actor in draw(st.lists(st.integers(0, actors - 1), min_size=2, max_size=2))
            ]
        )
        looks.append(now)
        shown = later
    return streams, reads, looks


def totals_of(
    streams: list[list[int]], reads: list[list[tuple[int, int]]], looks: list[list[int]]
) -> Iterator[dict[str, Any]]:
    for taken, newest in zip(reads, looks, strict=True):
        yield {
            "read/actor": np.array([actor for actor, _ in taken]),
            "read/begin": np.array([sum(streams[actor][:number]) for actor, number in taken]),
            "env_steps": np.array([streams[actor][number] for actor, number in taken]),
            "newest/begin": np.array([sum(streams[actor][:number]) for actor, number in enumerate(newest)]),
        }


@given(histories())
def test_every_env_step_is_used_once_or_dropped_once(history: Any) -> None:
    streams, reads, looks = history
    settled = np.zeros(len(streams), np.int64)
    used = dropped = reused = 0
    for total in totals_of(*history):
        again, passed_over = account(settled, total)
        used += int(total["env_steps"][~again].sum())
        reused += int(total["env_steps"][again].sum())
        dropped += passed_over
    everything = [one for taken in reads for one in taken]
    assert used == sum(streams[actor][number] for actor, number in set(everything))
    assert used + reused == sum(streams[actor][number] for actor, number in everything)
    for actor, stream in enumerate(streams):
        known = [number + 1 for who, number in everything if who == actor]
        assert settled[actor] == sum(stream[: max([*known, looks[-1][actor]])])
    assert used + dropped == settled.sum()
