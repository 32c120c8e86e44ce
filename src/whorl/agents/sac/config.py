"""Settings of SAC."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from whorl.agents.continuous.settings import wide_network
from whorl.agents.off_policy.settings import ReplayConfig
from whorl.config.bounds import AtLeast, AtMost, MoreThan
from whorl.models.config import NetworkConfig


@dataclass(frozen=True)
class SACConfig:
    """Soft actor-critic with an automatic temperature (Haarnoja et al. 2018, 2018b)."""

    learning_rate: Annotated[float, MoreThan(0)] = 3e-4
    """Of Adam: for the actor and the temperature."""
    critic_learning_rate: Annotated[float, MoreThan(0)] = 3e-4
    """Of the critics' Adam."""
    rows: Annotated[int, AtLeast(1)] = 1
    """Env steps of every environment between updates."""
    gradient_steps: Annotated[int, AtLeast(0)] = 0
    """Gradient steps of each update. 0: one for every env step."""
    batch_size: Annotated[int, AtLeast(1)] = 256
    """Transitions drawn for a gradient step."""
    learning_starts: Annotated[int, AtLeast(0)] = 1000
    """Env steps before the first gradient step, which comes at the end of the batch after."""
    random_env_steps: Annotated[int, AtLeast(0)] = 1000
    """Env steps at the beginning whose actions are uniform between their bounds, up to the end of the batch after."""
    discount: Annotated[float, AtLeast(0), AtMost(1)] = 0.99
    """Of later rewards."""
    n_step: Annotated[int, AtLeast(1)] = 1
    """Rewards summed before the critics take over."""
    tau: Annotated[float, MoreThan(0), AtMost(1)] = 0.005
    """The share of the way that target networks move after each gradient step."""
    temperature: Annotated[float, MoreThan(0)] = 1.0
    """Weight of the entropy beside the reward; where it starts, if it is automatic."""
    automatic_temperature: bool = True
    """Move the temperature so that the policy's entropy comes to its target."""
    target_entropy: float = -1.0
    """Of each component of the (scaled) action; the policy's is this times their number."""
    replay: ReplayConfig = field(default_factory=lambda: ReplayConfig(capacity=1_000_000))
    """The memory that is learnt from."""
    network: NetworkConfig = field(default_factory=wide_network)
    """Of the actor and of each critic."""
