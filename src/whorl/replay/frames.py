"""Stacked images in a ring: each frame is stored once, and stacks are made again when rows are drawn.

A row keeps its newest frame, and its ``age``: how many rows of its episode lie before it in its lane, counted up to the
length of a stack. The older frames of its stack are the newest of those rows; before an episode's first row stands what
the environment's padding says. Rows that follow on nothing stored get *lead rows* before them, which hold the older
frames of the first stack and are never drawn.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from whorl.trajectory.layout import PER_LANE, PER_TRAJECTORY
from whorl.types import Array, Arrays, EnvSpec, ObservationLeaf

AGE = "age"


def stacked_leaves(env: EnvSpec) -> dict[str, ObservationLeaf]:
    """The leaves that consist of several frames."""
    return {leaf.name: leaf for leaf in env.observation if leaf.frames > 1}


def lead_rows_of(env: EnvSpec) -> int:
    """Rows before a row that its stack may reach back to."""
    return max(leaf.frames for leaf in env.observation) - 1


def newest_only(env: EnvSpec) -> EnvSpec:
    """With leaves as they are stored: one frame each."""
    leaves = (
        replace(leaf, frames=1, shape=(_channels(leaf), *leaf.shape[1:])) if leaf.frames > 1 else leaf
        for leaf in env.observation
    )
    return replace(env, observation=tuple(leaves))


def as_they_are(env: EnvSpec) -> EnvSpec:
    """With leaves that nobody takes apart."""
    return replace(env, observation=tuple(replace(leaf, frames=1) for leaf in env.observation))


class Stacks:
    """The stacked leaves of a ring of rows."""

    def __init__(self, env: EnvSpec) -> None:
        self._leaves = stacked_leaves(env)
        self.lead_rows = lead_rows_of(env)

    def newest(self, name: str, rows: Array) -> Array:
        """What is stored of the rows [T, B, ...] of a leaf."""
        leaf = self._leaves.get(name)
        return rows if leaf is None else rows[:, :, -_channels(leaf) :]

    def ages(self, first: Array, before: Array) -> Array:
        """The ages of rows [T, B], from where episodes begin and the ages of the rows before them."""
        ages = np.empty(first.shape, np.uint8)
        for row, begins in enumerate(first):
            before = ages[row] = np.where(begins, 0, np.minimum(before + 1, self.lead_rows))
        return ages

    def with_lead(self, trajectory: Arrays) -> Arrays:
        """The trajectory with lead rows before it."""
        if not self.lead_rows:
            return trajectory
        longer = dict(trajectory)
        for name, array in trajectory.items():
            if name in PER_TRAJECTORY or name.startswith(PER_LANE):
                continue
            longer[name] = np.concatenate([self._lead(name, array), array])
        longer["first"][0] = True  # so that nothing reaches further back
        return longer

    def _lead(self, name: str, array: Array) -> Array:
        """Only the newest frame of each of these matters."""
        lead = np.zeros((self.lead_rows, *array.shape[1:]), array.dtype)
        leaf = self._leaves.get(name.removeprefix("obs/"))
        if leaf is not None:
            channels = _channels(leaf)
            for row in range(leaf.frames - 1):
                older = array[0][:, row * channels : (row + 1) * channels]
                lead[self.lead_rows - leaf.frames + 1 + row][:, -channels:] = older
        return lead

    def gather(self, name: str, stored: Array, ages: Array, indices: Array, lanes: int) -> Array:
        """The leaf at these indices: of ``stored`` [rows * lanes, ...] what is asked for, as whole stacks."""
        leaf = self._leaves.get(name)
        if leaf is None:
            return stored.take(indices, 0)
        channels, reach = _channels(leaf), ages.take(indices).astype(np.int64)
        stacks = np.empty((len(indices), *leaf.shape), leaf.dtype)
        for back in range(leaf.frames):
            part = stacks[:, (leaf.frames - 1 - back) * channels :][:, :channels]
            part[...] = stored.take((indices - np.minimum(back, reach) * lanes) % len(stored), 0)
            if leaf.padding == "zero":
                part[reach < back] = 0
        return stacks


def _channels(leaf: ObservationLeaf) -> int:
    """Of one frame."""
    return leaf.shape[0] // leaf.frames
