"""What a network is, without computing anything: its parameters, its recurrent state, how acting runs it.

One flat buffer holds everything, in this order, so that each part is a plain slice:

    [ statistics | policy parameters | value parameters ]
      '------ weights of actors ---'
                   '--- parameters, with one gradient ---'
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

from whorl.models.config import NetworkConfig
from whorl.models.encoding import Encoder
from whorl.models.heads import GaussianHead, head_for
from whorl.types import EnvSpec, Field, Layout, ObservationLeaf

_SQRT_2 = math.sqrt(2)
_POLICY_GAIN, _VALUE_GAIN = 0.01, 1.0

Convolution = tuple[int, int]
"""(kernel, stride)"""


@dataclass(frozen=True)
class Parameter:
    """One array of parameters. A matrix is [in, out], but a head's is [out, in], because its few outputs are computed
    as columns; a convolution's kernel is [out, in, height, width]."""

    name: str
    shape: tuple[int, ...]
    gain: float
    """Of an orthogonal start (Saxe et al. 2014); 0 starts at zero."""

    @property
    def field(self) -> Field:
        return Field(self.name, self.shape, "float32")


class Parameterised(Protocol):
    """Anything whose parameters lie in one flat buffer: ``everything`` ends with the ``parameters`` in order and begins
    with the ``weights`` of actors."""

    @property
    def parameters(self) -> tuple[Parameter, ...]: ...
    @property
    def weights(self) -> Layout: ...
    @property
    def everything(self) -> Layout: ...


class ActingNetwork(Protocol):
    """What it takes to run a network forward."""

    @property
    def config(self) -> NetworkConfig: ...
    @property
    def encoder(self) -> Encoder: ...
    @property
    def recurrent(self) -> bool: ...
    @property
    def output_width(self) -> int:
        """Of the policy."""
        ...


class Network:
    """The description from which both forwards, the layouts and the initial weights follow."""

    def __init__(self, config: NetworkConfig, env: EnvSpec, normalise: bool, value: bool = True) -> None:
        self.config = config
        self.encoder = Encoder(env.observation, normalise)
        self.head = head_for(env.action)
        self.gaussian = isinstance(self.head, GaussianHead)
        self.recurrent = config.core == "lstm"
        self.shared = self.recurrent or bool(self.encoder.images)
        self.acting: Literal["numpy", "torch"] = "torch" if self.encoder.images else "numpy"
        self.policy_parameters = tuple(self._trunk()) + tuple(self._policy_head())
        self.value_parameters = tuple(self._value()) if value else ()

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """All of them, the policy's first."""
        return self.policy_parameters + self.value_parameters

    @property
    def output_width(self) -> int:
        """Of the policy."""
        return self.head.width

    @property
    def state(self) -> tuple[Field, ...]:
        """Recurrent state per lane."""
        if not self.recurrent:
            return ()
        return (Field("h", (self.config.lstm_size,), "float32"), Field("c", (self.config.lstm_size,), "float32"))

    @property
    def weights(self) -> Layout:
        """What actors need."""
        return Layout(self.encoder.statistics + tuple(p.field for p in self.policy_parameters))

    @property
    def everything(self) -> Layout:
        """Weights, and the value's parameters behind them."""
        return Layout(self.encoder.statistics + tuple(p.field for p in self.parameters))

    @property
    def trunk_width(self) -> int:
        """Features before the core or the heads: [images | encoded vector]."""
        return len(self.encoder.images) * self.config.image_features + self.encoded_width

    @property
    def encoded_width(self) -> int:
        """Of the vector features, after the encoder's layers if there are any."""
        if self.recurrent and not self.encoder.images and self.config.hidden:
            return self.config.hidden[-1]
        return self.encoder.width

    @property
    def encoder_layers(self) -> int:
        """Layers of the shared encoder of vector features."""
        return len(self.config.hidden) if self.recurrent and not self.encoder.images else 0

    def _trunk(self) -> Iterator[Parameter]:
        for leaf in self.encoder.images:
            channels, height, width = leaf.shape
            for i, (kernel, stride) in enumerate(convolutions(leaf)):
                out = self.config.image_channels[i]
                yield Parameter(f"image/{leaf.name}/{i}/weight", (out, channels, kernel, kernel), _SQRT_2)
                if self.config.image_bias:
                    yield Parameter(f"image/{leaf.name}/{i}/bias", (out,), 0)
                channels = out
                height, width = (height - kernel) // stride + 1, (width - kernel) // stride + 1
            flat = channels * height * width
            yield from _linear(f"image/{leaf.name}/out", flat, self.config.image_features, _SQRT_2)
        if not self.recurrent:
            return
        width = self.encoder.width
        for i, hidden in enumerate(self.config.hidden[: self.encoder_layers]):
            yield from _linear(f"encoder/{i}", width, hidden, _SQRT_2)
            width = hidden
        size = self.config.lstm_size
        yield Parameter("lstm/input", (self.trunk_width, 4 * size), 1.0)
        yield Parameter("lstm/recurrent", (size, 4 * size), 1.0)
        yield Parameter("lstm/bias", (4 * size,), 0)

    def _policy_head(self) -> Iterator[Parameter]:
        yield from self._tower("policy", self.head.width, _POLICY_GAIN)
        if self.gaussian:
            yield Parameter("policy/log_std", (self.head.width,), 0)

    def _value(self) -> Iterator[Parameter]:
        yield from self._tower("value", 1, _VALUE_GAIN)

    def _tower(self, name: str, out: int, gain: float) -> Iterator[Parameter]:
        width = self.encoder.width
        hidden = self.config.hidden
        if self.shared:
            width, hidden = self.config.lstm_size if self.recurrent else self.trunk_width, ()
        yield from tower(name, width, hidden, out, gain)


def tower(name: str, width: int, hidden: tuple[int, ...], out: int, gain: float) -> Iterator[Parameter]:
    """Hidden layers above ``width`` inputs, and a head of ``out`` outputs that starts with this gain."""
    for i, size in enumerate(hidden):
        yield from _linear(f"{name}/{i}", width, size, _SQRT_2)
        width = size
    yield Parameter(f"{name}/out/weight", (out, width), gain)
    yield Parameter(f"{name}/out/bias", (out,), 0)


def convolutions(leaf: ObservationLeaf) -> tuple[Convolution, ...]:
    """Those of Mnih et al. (Nature 2015), or kernels of 3 and less for images under 36 pixels."""
    size = min(leaf.shape[1:])
    if size >= 36:
        return ((8, 4), (4, 2), (3, 1))
    layers: list[Convolution] = []
    for stride in (1, 2, 1):
        kernel = min(3, size)
        layers.append((kernel, stride))
        size = (size - kernel) // stride + 1
    return tuple(layers)


def block_size(leaf: ObservationLeaf) -> int:
    """The side, in pixels, of the blocks in which an image is handed to its first convolution."""
    kernel, stride = convolutions(leaf)[0]
    return stride if kernel % stride == 0 else 1


def _linear(name: str, inputs: int, outputs: int, gain: float) -> Iterator[Parameter]:
    yield Parameter(f"{name}/weight", (inputs, outputs), gain)
    yield Parameter(f"{name}/bias", (outputs,), 0)
