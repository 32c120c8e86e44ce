"""Settings of an agent that exists only in these tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from whorl.config.bounds import AtLeast, AtMost, MoreThan


@dataclass(frozen=True)
class NetworkConfig:
    """The network."""

    hidden: tuple[Annotated[int, AtLeast(1)], ...] = (64, 64)
    """Widths of
    the layers."""
    core: Literal["none", "lstm"] = "none"
    """Recurrent core."""


@dataclass(frozen=True)
class SampleConfig:
    """What is learnt."""

    learning_rate: Annotated[float, MoreThan(0)] = 3e-4
    """Step size of the optimiser."""
    clip: Annotated[float, MoreThan(0), AtMost(1)] = 0.2
    """Clip range."""
    epochs: Annotated[int, AtLeast(1)] = 4
    target_kl: Annotated[float, AtLeast(0)] | None = None
    """Stop early past this; none: never."""
    entropy_coefficient: float = 0.01
    normalise_rewards: bool = False
    label: str = ""
    network: NetworkConfig = field(default_factory=NetworkConfig)

    def __post_init__(self) -> None:
        if self.epochs > 100 and self.target_kl is None:
            raise ValueError("more than 100 epochs need a target_kl")
