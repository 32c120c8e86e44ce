"""Settings of exploration, and those that every agent of bounded actions has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, Protocol

from whorl.agents.off_policy.settings import OffPolicyConfig
from whorl.config.bounds import AtLeast, AtMost
from whorl.models.config import NetworkConfig


@dataclass(frozen=True)
class NoiseConfig:
    """What is added to actions while training, in the scaled space where the bounds are -1 and 1."""

    kind: Literal["gaussian", "ou"] = "gaussian"
    """``gaussian``: fresh for every action. ``ou``: Ornstein-Uhlenbeck, which keeps its direction for a while, for
    tasks where a single odd action leads nowhere."""
    sigma: Annotated[float, AtLeast(0)] = 0.1
    """Standard deviation of what is added (``gaussian``), or of what it moves by per env step (``ou``)."""
    theta: Annotated[float, AtLeast(0), AtMost(1)] = 0.15
    """How quickly ``ou`` noise returns to 0: the share per env step. Its deviation settles at
    sigma / sqrt(2 theta - theta^2)."""


class ContinuousConfig(OffPolicyConfig, Protocol):
    """What the shared code reads of an agent's settings."""

    @property
    def random_env_steps(self) -> int: ...
    @property
    def tau(self) -> float: ...


def wide_network() -> NetworkConfig:
    """The network that these agents are usually run with."""
    return NetworkConfig(hidden=(256, 256), activation="relu")
