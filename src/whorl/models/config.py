"""Settings of a network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from whorl.config.bounds import AtLeast

MOST_HIDDEN_LAYERS = 100
CONVOLUTIONS = 3


@dataclass(frozen=True)
class NetworkConfig:
    """The network between an observation and the heads.

    Vectors and discrete values (one-hot) are concatenated; images go through a Nature CNN. Without images and without
    a core, policy and value have a tower each; otherwise they share the trunk and differ in the last layer.
    """

    hidden: tuple[Annotated[int, AtLeast(1)], ...] = (64, 64)
    """Widths of the hidden layers: of each tower, or of the encoder before an LSTM. Not used behind images."""
    activation: Literal["tanh", "relu"] = "tanh"
    """Of the hidden layers. The CNN's is always relu."""
    core: Literal["none", "lstm"] = "none"
    """A recurrent core, for tasks that need memory."""
    lstm_size: Annotated[int, AtLeast(1)] = 64
    """Width of the LSTM's state."""
    image_channels: tuple[Annotated[int, AtLeast(1)], ...] = (32, 64, 64)
    """Channels of the CNN's three convolutions."""
    image_bias: bool = True
    """Whether the CNN's convolutions have biases."""
    image_features: Annotated[int, AtLeast(1)] = 512
    """Width of the layer that ends the CNN of each image."""

    def __post_init__(self) -> None:
        if len(self.image_channels) != CONVOLUTIONS:
            raise ValueError(f"image_channels: expected {CONVOLUTIONS} numbers; got {len(self.image_channels)}")
        if len(self.hidden) > MOST_HIDDEN_LAYERS:
            raise ValueError(f"hidden: expected at most {MOST_HIDDEN_LAYERS} layers; got {len(self.hidden)}")
