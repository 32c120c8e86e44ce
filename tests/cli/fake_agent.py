"""Settings of an agent that exists only in these tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from whorl.config.bounds import AtLeast, MoreThan


@dataclass(frozen=True)
class NetworkConfig:
    """The network."""

    hidden: tuple[Annotated[int, AtLeast(1)], ...] = (64, 64)
    activation: Literal["tanh", "relu"] = "tanh"


@dataclass(frozen=True)
class FakeConfig:
    """What is learnt. Has the settings that the shipped preset names."""

    learning_rate: Annotated[float, MoreThan(0)] = 3e-4
    """Step size."""
    rows: Annotated[int, AtLeast(1)] = 128
    epochs: Annotated[int, AtLeast(1)] = 4
    minibatches: Annotated[int, AtLeast(1)] = 4
    clip: Annotated[float, MoreThan(0)] = 0.2
    entropy_coefficient: float = 0.0
    discount: float = 0.99
    gae_lambda: float = 0.95
    anneal: Literal["none", "linear"] = "none"
    network: NetworkConfig = field(default_factory=NetworkConfig)
