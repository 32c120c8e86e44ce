"""The tree against a naive one, and its draws against the priorities."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whorl.replay.sum_tree import SumTree

priorities = st.floats(0, 1e6, allow_subnormal=False)


@given(st.integers(1, 5000), st.lists(st.tuples(st.integers(0, 10**9), priorities), max_size=60), st.integers(0, 2**32))
def test_it_agrees_with_a_naive_tree(capacity, changes, seed):
    tree, naive = SumTree(capacity), np.zeros(capacity)
    for index, priority in changes:
        tree.set(np.array([index % capacity]), np.array([priority]))
        naive[index % capacity] = priority
    assert np.array_equal(tree.leaves, naive)
    assert tree.maximum == naive.max()
    assert tree.total == pytest.approx(naive.sum())
    if naive.sum() > 0:
        found = tree.find(np.random.default_rng(seed).random(200) * tree.total)
        assert (naive[found] > 0).all()


@given(st.integers(2, 3000), st.integers(0, 2**32))
def test_whole_numbers_are_found_exactly(capacity, seed):
    generator = np.random.default_rng(seed)
    tree, naive = SumTree(capacity), generator.integers(0, 5, capacity).astype(float)
    naive[0] = 1
    tree.load(naive)
    values = generator.random(100) * naive.sum()
    assert np.array_equal(tree.find(values), np.searchsorted(np.cumsum(naive), values, side="right"))


def test_the_last_of_two_equal_indices_counts():
    tree = SumTree(40)
    tree.set(np.array([3, 3, 39]), np.array([1.0, 2.0, 5.0]))
    assert (tree.leaves[3], tree.total, tree.maximum) == (2.0, 7.0, 5.0)


def test_the_maximum_falls_when_its_leaf_does():
    tree = SumTree(2000)
    tree.set(np.array([7, 1500]), np.array([1.0, 9.0]))
    tree.set(np.array([1500]), np.array([0.5]))
    assert tree.maximum == 1.0


def test_no_rounding_creeps_in():
    generator = np.random.default_rng(1)
    tree = SumTree(5000)
    for _ in range(300):
        tree.set(generator.integers(0, 5000, 64), generator.random(64) * 10.0 ** generator.integers(-8, 8))
    fresh = SumTree(5000)
    fresh.load(tree.leaves)
    assert fresh.total == tree.total


def test_a_value_at_the_very_end_finds_a_leaf_with_priority():
    tree = SumTree(100)
    tree.set(np.array([10, 20]), np.array([0.1, 0.2]))
    assert tree.find(np.array([tree.total, tree.total * 2])).tolist() == [20, 20]
