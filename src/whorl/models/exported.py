"""A trained policy as one torch module that stands on its own: raw observations in, greedy actions out.

Normalisation is inside, so whoever runs the file needs nothing of Whorl:

    feed-forward    (*leaves)          -> action, scores
    with an LSTM    (*leaves, h, c)    -> action, scores, h_next, c_next

Scores are what the action was chosen by: ``logits``, ``values``, or the ``mean`` in the head's scaled space.

Written with plain operations, because exporters follow neither the unrolled LSTM nor buffers that are filled in place.
"""

from __future__ import annotations

import math
import re

import numpy as np
import torch
from torch import Tensor

from whorl.models.bounded_actor import BoundedActor
from whorl.models.encoding import NORMALISED_LIMIT
from whorl.models.heads import BoundedHead, GaussianHead
from whorl.models.network import Network, block_size
from whorl.models.torch_forward import Inputs, forward_features, forward_head, forward_tower
from whorl.types import Array, Arrays, ObservationLeaf

_OWN_NAMES = frozenset({"action", "logits", "values", "mean", "h", "c", "h_next", "c_next"})


class GreedyPolicy(torch.nn.Module):
    """The greedy policy of a network with fixed weights. Arguments in the order of ``input_names``."""

    def __init__(
        self,
        network: Network | BoundedActor,
        leaves: tuple[ObservationLeaf, ...],
        weights: Arrays,
        scores: str = "logits",
    ) -> None:
        super().__init__()
        self.network = network
        self.continuous = isinstance(network.head, GaussianHead | BoundedHead)
        self._scores = "mean" if self.continuous else scores
        self._leaves = leaves
        held = dict(weights)
        if isinstance(network.head, GaussianHead | BoundedHead):
            action = network.head.action
            held |= {"low": _inside(action.low, np.inf), "high": _inside(action.high, -np.inf)}
            held |= {"middle": network.head.middle, "half_range": network.head.half_range}
        # Buffers, so that they follow the module to a device; their names may hold neither dots nor be taken.
        self._buffer_of = {name: f"buffer_{i}_{re.sub(r'[^a-z0-9]', '_', name)}" for i, name in enumerate(held)}
        for name, array in held.items():
            self.register_buffer(self._buffer_of[name], torch.from_numpy(array.copy()))

    @property
    def input_names(self) -> list[str]:
        """Observation leaves by name (``obs.`` before one that is called like an output), then the recurrent state."""
        leaves = [f"obs.{leaf.name}" if leaf.name in _OWN_NAMES else leaf.name for leaf in self._leaves]
        return [*leaves, *(field.name for field in self.network.state)]

    @property
    def output_names(self) -> list[str]:
        """The action, what it was chosen by, and the recurrent state to hand in next time (zeros at a reset)."""
        return ["action", self._scores, *(f"{field.name}_next" for field in self.network.state)]

    def example_inputs(self, rows: int, seed: int = 0) -> dict[str, Tensor]:
        """Random observations within their bounds (around 0 where there are none), and a random state."""
        numbers = np.random.default_rng(seed)
        arrays = [_random_leaf(leaf, rows, numbers) for leaf in self._leaves]
        arrays += [numbers.uniform(-1, 1, (rows, *f.shape)).astype(f.dtype) for f in self.network.state]
        return {name: torch.from_numpy(array) for name, array in zip(self.input_names, arrays, strict=True)}

    def observation_of(self, inputs: dict[str, Tensor]) -> Arrays:
        """The observation leaves among named inputs, as an acting policy takes them."""
        names = self.input_names[: len(self._leaves)]
        return {leaf.name: inputs[name].numpy() for leaf, name in zip(self._leaves, names, strict=True)}

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Outputs in the order of ``output_names``, for any number of rows."""
        observation = {leaf.name: value for leaf, value in zip(self._leaves, inputs, strict=False)}
        images = {leaf.name: _blocks(observation[leaf.name], block_size(leaf)) for leaf in self.network.encoder.images}
        held = {name: self.get_buffer(buffer) for name, buffer in self._buffer_of.items()}
        features = self._features(held, observation)
        state: tuple[Tensor, ...] = ()
        if isinstance(self.network, BoundedActor) or not self.network.shared:
            hidden = forward_tower(self.network, held, "policy", features)
        else:
            hidden = forward_features(self.network, held, Inputs(features, images))
            if self.network.recurrent:
                state = _lstm_cell(held, hidden, *inputs[len(self._leaves) :])
                hidden = state[0]
        outputs = forward_head(held, "policy", hidden).t()
        if isinstance(self.network.head, BoundedHead):
            outputs = outputs[:, : self.network.head.size].tanh()  # without the deviations
        return (self._action(held, outputs), outputs, *state)

    def _features(self, held: dict[str, Tensor], observation: dict[str, Tensor]) -> Tensor:
        """What ``Encoder.encode`` writes."""
        encoder = self.network.encoder
        parts = []
        for leaf in encoder.leaves:
            value = observation[leaf.name]
            if leaf.kind == "discrete":
                part = (value[:, None] == torch.arange(leaf.n, device=value.device)).to(torch.float32)
            else:
                part = value.reshape(value.shape[0], -1)
            if leaf in encoder.normalised:
                mean, scale = (held[f"norm/{leaf.name}/{what}"].reshape(-1) for what in ("mean", "scale"))
                part = ((part - mean) * scale).clamp(-float(NORMALISED_LIMIT), float(NORMALISED_LIMIT))
            parts.append(part)
        return torch.cat(parts, 1) if parts else torch.empty(0)

    def _action(self, held: dict[str, Tensor], outputs: Tensor) -> Tensor:
        """What the policy takes without noise."""
        head = self.network.head
        if isinstance(head, GaussianHead | BoundedHead):
            scaled = held["middle"] + held["half_range"] * outputs
            chosen = torch.minimum(torch.maximum(scaled, held["low"]), held["high"])
        else:
            chosen = torch.stack([block.argmax(1) for block in torch.split(outputs, list(head.nvec), 1)], 1)
        return chosen.reshape(-1, *head.action.shape)


def _blocks(image: Tensor, size: int) -> Tensor:
    """What ``to_blocks`` gives."""
    _, channels, height, width = image.shape
    rows, columns = height // size, width // size
    apart = image[:, :, : rows * size, : columns * size].reshape(-1, channels, rows, size, columns, size)
    return apart.permute(0, 2, 4, 1, 3, 5).reshape(-1, rows, columns, channels * size * size)


def _lstm_cell(held: dict[str, Tensor], x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """One row of ``unroll_lstm``."""
    gates = x @ held["lstm/input"] + h @ held["lstm/recurrent"] + held["lstm/bias"]
    i, f, g, o = gates.chunk(4, 1)
    c_next = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c_next.tanh(), c_next


def _inside(bounds: tuple[float, ...], inwards: float) -> Array:
    """Bounds as float32, and none of them outside of what it was: whoever runs the file may act in float64."""
    exact, rounded = np.array(bounds, np.float64), np.array(bounds, np.float32)
    is_outside = rounded < exact if inwards > 0 else rounded > exact
    inside: Array = np.where(is_outside, np.nextafter(rounded, np.float32(inwards)), rounded)
    return inside


def _random_leaf(leaf: ObservationLeaf, rows: int, numbers: np.random.Generator) -> Array:
    shape = (rows, *leaf.shape)
    if leaf.kind == "discrete":
        return numbers.integers(0, leaf.n, shape, dtype=np.int64)
    if leaf.kind == "image":
        low, high = int(leaf.low), int(leaf.high)
        return numbers.integers(low, high + 1, shape).astype(leaf.dtype)
    if math.isfinite(leaf.low) and math.isfinite(leaf.high) and leaf.high - leaf.low < 1e6:
        return numbers.uniform(leaf.low, leaf.high, shape).astype(leaf.dtype)
    return numbers.standard_normal(shape).astype(leaf.dtype)
