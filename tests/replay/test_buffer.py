"""Draws follow the priorities, also after the ring was overwritten; weights undo them; saved is saved."""

from __future__ import annotations

import numpy as np
import pytest

from made_up_rows import ENV, MadeUpLane, write_trajectory
from whorl.errors import CheckpointError
from whorl.replay.buffer import Replay
from whorl.types import Arrays

LANES = 4


def filled(trajectories: int, rows: int = 40, **settings: float) -> tuple[Replay, list[MadeUpLane]]:
    lanes = [MadeUpLane(i, ["step", "step", "end", "step", "fault"] * 40) for i in range(LANES)]
    replay = Replay(ENV, LANES, rows, n_step=2, discount=0.9, **settings)
    for number in range(trajectories):
        replay.insert(write_trajectory(lanes, number))
    return replay, lanes


def copied(pieces: dict[str, Arrays]) -> dict[str, Arrays]:
    return {piece: {name: array.copy() for name, array in arrays.items()} for piece, arrays in pieces.items()}


def chi_square(counts: np.ndarray, chances: np.ndarray) -> float:
    """Standardised: about normal with mean 0 and deviation 1 when the counts follow the chances."""
    expected = chances * counts.sum()
    statistic = ((counts - expected) ** 2 / expected).sum()
    freedom = len(chances) - 1
    return float((statistic - freedom) / np.sqrt(2 * freedom))


@pytest.mark.parametrize("trajectories", [4, 30])
def test_a_million_draws_follow_the_priorities(trajectories: int):
    replay, _ = filled(trajectories, alpha=0.7)
    generator = np.random.default_rng(3)
    everything = replay.draw((np.arange(4000) % 40) / 40)
    replay.set_priorities(everything.indices, everything.generations, generator.random(4000) * 5)
    priorities = replay.save()["state"]["priorities"]
    counts = np.zeros(len(priorities))
    for _ in range(100):
        # Strata make counts more even than independent draws would be, so each draw takes a stratum of its own size.
        np.add.at(counts, replay._tree.find(generator.random(10_000) * replay.total_priority), 1)
    drawn = priorities > 0
    assert not counts[~drawn].any()
    assert len(replay) == drawn.sum()
    assert abs(chi_square(counts[drawn], priorities[drawn] / priorities.sum())) < 5


def test_strata_draw_everything_in_proportion():
    replay, _ = filled(5, alpha=1.0)
    batch = replay.draw(np.full(1000, 0.5))
    counts = np.bincount(batch.indices, minlength=LANES * 40)
    expected = 1000 * replay.save()["state"]["priorities"] / replay.total_priority
    assert np.abs(counts - expected).max() <= 1.0 + 1e-9


@pytest.mark.parametrize("trajectories", [4, 30])
def test_uniform_draws_are_even(trajectories: int):
    replay, _ = filled(trajectories)
    batch = replay.draw(np.random.default_rng(5).random(1_000_000))
    counts = np.bincount(batch.indices)
    counts = counts[counts > 0]
    assert len(counts) == len(replay)
    assert abs(chi_square(counts, np.full(len(counts), 1 / len(counts)))) < 5
    assert (batch.weights == 1).all()


def test_weights_are_those_of_the_paper():
    replay, _ = filled(2, alpha=1.0)
    some = replay.draw(np.full(8, 0.5))
    index, generation = some.indices[:1], some.generations[:1]
    replay.set_priorities(index, generation, np.array([3.0 - 1e-6]))
    total, size = replay.total_priority, len(replay)
    assert total == pytest.approx(size - 1 + 3)
    batch = replay.draw((np.arange(size * 4) % 4) / 4, beta=0.5)
    rare = (size * 1 / total) ** -0.5
    often = (size * 3 / total) ** -0.5
    assert batch.weights.max() == 1
    assert batch.weights[batch.indices == index[0]] == pytest.approx(often / rare)


def test_priorities_for_overwritten_rows_are_dropped():
    replay, lanes = filled(3, rows=20, alpha=1.0)
    batch = replay.draw(np.arange(16) / 16)
    before = replay.save()["state"]["priorities"].copy()
    for number in range(3, 8):
        replay.insert(write_trajectory(lanes, number))
    fresh = replay.save()["state"]["priorities"].copy()
    replay.set_priorities(batch.indices, batch.generations, np.full(16, 100.0))
    assert np.array_equal(replay.save()["state"]["priorities"], fresh)
    assert not np.array_equal(before, fresh)


@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_saved_and_loaded_it_goes_on_the_same(alpha: float):
    replay, lanes = filled(9, alpha=alpha)
    batch = replay.draw(np.random.default_rng(1).random(32))
    replay.set_priorities(batch.indices, batch.generations, np.random.default_rng(2).random(32))
    other, _ = filled(0, alpha=alpha)
    other.load(copied(replay.save()))
    uniforms = np.random.default_rng(3).random(64)
    trajectory = write_trajectory(lanes, 9)
    replay.insert(trajectory)
    other.insert(trajectory)
    one, two = replay.draw(uniforms, 0.4), other.draw(uniforms, 0.4)
    assert np.array_equal(one.indices, two.indices)
    assert np.array_equal(one.weights, two.weights)
    assert np.array_equal(one.transitions.reward, two.transitions.reward)
    assert np.array_equal(one.generations, two.generations)


def test_a_foreign_state_and_an_empty_replay_are_refused():
    replay, _ = filled(2, alpha=0.5)
    with pytest.raises(CheckpointError, match="prioritised"):
        filled(0)[0].load(replay.save())
    with pytest.raises(ValueError, match="empty"):
        filled(0)[0].draw(np.zeros(1))
