"""Heads: how the network's last outputs become actions. The acting half, in numpy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whorl.ops.sampling import sample_categorical, sample_gaussian
from whorl.types import ActionSpec, Array, Arrays, Field


class Chosen(NamedTuple):
    """Actions as the environment takes them, and what the agent stores beside them."""

    actions: Array
    fields: Arrays


class CategoricalHead:
    """Logits of one categorical choice (discrete) or of several independent ones (multi-discrete)."""

    fields = (Field("log_prob", (), "float32"),)

    def __init__(self, action: ActionSpec) -> None:
        self.action = action
        self.nvec = action.nvec
        self.width = sum(action.nvec)
        self.noise_width = len(action.nvec)
        self._blocks = _blocks(action.nvec)

    def choose(self, outputs: Array, log_std: Array | None, noise: Array | None) -> Chosen:
        """Actions for logits ``outputs`` [rows, width]; ``noise`` None takes the likeliest."""
        del log_std
        if noise is None:
            parts = [(outputs[:, block].argmax(axis=1), np.zeros(len(outputs), np.float32)) for block in self._blocks]
        elif len(self._blocks) == 1:
            parts = [sample_categorical(outputs, noise[:, 0])]
        else:
            parts = [sample_categorical(outputs[:, block], noise[:, i]) for i, block in enumerate(self._blocks)]
        actions, log_prob = parts[0]
        if len(parts) > 1:
            actions = np.stack([part[0] for part in parts], axis=1)
            log_prob = np.sum([part[1] for part in parts], axis=0, dtype=np.float32)
        actions = actions.reshape(len(outputs), *self.action.shape).astype(self.action.dtype, copy=False)
        return Chosen(actions, {"log_prob": log_prob})


class GaussianHead:
    """Means of a diagonal Gaussian whose log standard deviations are parameters that do not depend on the state.

    The Gaussian lives in a scaled space: 0 is the middle between finite bounds and -1 and 1 are the bounds themselves,
    so that a fresh network reaches the whole range of any environment. Samples are not squashed: the environment gets
    the sample scaled and clipped to its bounds, while ``raw_action`` and its ``log_prob`` are of the sample itself.
    """

    def __init__(self, action: ActionSpec) -> None:
        self.action = action
        self.width = len(action.low)
        self.noise_width = self.width + self.width % 2
        self.fields = (Field("log_prob", (), "float32"), Field("raw_action", (self.width,), "float32"))
        self.low = np.array(action.low, np.float32)
        self.high = np.array(action.high, np.float32)
        bounded = np.isfinite(self.low) & np.isfinite(self.high)
        low, high = (np.where(bounded, bound, side) for bound, side in ((self.low, -1), (self.high, 1)))
        # Halved first: bounds at the ends of float32 are allowed.
        self.middle = (low / 2 + high / 2).astype(np.float32)
        self.half_range = (high / 2 - low / 2).astype(np.float32)

    def choose(self, outputs: Array, log_std: Array | None, noise: Array | None) -> Chosen:
        """Actions for means ``outputs`` [rows, width]; ``noise`` None takes the mean."""
        assert log_std is not None
        if noise is None:
            raw, log_prob = outputs.copy(), np.zeros(len(outputs), np.float32)
        else:
            raw, log_prob = sample_gaussian(outputs, log_std, noise)
        actions = np.clip(self.middle + self.half_range * raw, self.low, self.high)
        actions = actions.reshape(len(outputs), *self.action.shape).astype(self.action.dtype, copy=False)
        return Chosen(actions, {"log_prob": log_prob, "raw_action": raw})


class BoundedHead:
    """Outputs for actions between finite bounds: ``per_action`` numbers for each component (1: the action before tanh;
    2: mean and log standard deviation of a squashed Gaussian, all means first).

    Agents compute in a scaled space, where the bounds are -1 and 1.
    """

    def __init__(self, action: ActionSpec, per_action: int) -> None:
        self.action = action
        self.size = len(action.low)
        self.width = per_action * self.size
        self.noise_width = self.size + self.size % 2
        self.low = np.array(action.low, np.float32)
        self.high = np.array(action.high, np.float32)
        self.middle = (self.low + self.high) / 2
        self.half_range = (self.high - self.low) / 2
        self._per_half_range = np.where(self.half_range > 0, 1 / np.maximum(self.half_range, 1e-30), 0)

    def to_env(self, scaled: Array) -> Array:
        """Scaled actions [rows, size] as the environment takes them."""
        actions = np.minimum(np.maximum(self.middle + self.half_range * scaled, self.low), self.high)
        return actions.reshape(len(scaled), *self.action.shape).astype(self.action.dtype, copy=False)

    def from_env(self, actions: Array) -> NDArray[np.float32]:
        """The environment's actions [rows, *shape] as scaled ones, [rows, size]."""
        flat = actions.reshape(len(actions), self.size)
        return np.asarray((flat - self.middle) * self._per_half_range, np.float32)


Head = CategoricalHead | GaussianHead
"""Heads of actor-critic agents: they choose actions by themselves."""


def head_for(action: ActionSpec) -> Head:
    """The head that serves an action space."""
    return GaussianHead(action) if action.kind == "box" else CategoricalHead(action)


def _blocks(nvec: tuple[int, ...]) -> list[slice]:
    ends = np.cumsum(nvec).tolist()
    return [slice(end - n, end) for end, n in zip(ends, nvec, strict=True)]
