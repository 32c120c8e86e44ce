"""Settings of TD3."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from whorl.agents.continuous.settings import NoiseConfig, wide_network
from whorl.agents.off_policy.settings import ReplayConfig
from whorl.config.bounds import AtLeast, AtMost, MoreThan
from whorl.models.config import NetworkConfig


@dataclass(frozen=True)
class TD3Config:
    """Twin delayed deep deterministic policy gradient (Fujimoto et al. 2018)."""

    policy_learning_rate: Annotated[float, MoreThan(0)] = 1e-3
    """Of the actor's Adam."""
    critic_learning_rate: Annotated[float, MoreThan(0)] = 1e-3
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
    """The share of the way that target networks move with each step of the actor."""
    policy_delay: Annotated[int, AtLeast(1)] = 2
    """Gradient steps of the critics for each of the actor and of the target networks."""
    target_noise: Annotated[float, AtLeast(0)] = 0.2
    """Standard deviation of the noise on the target actor's actions, scaled: the critics are smoothed over it."""
    target_noise_limit: Annotated[float, AtLeast(0)] = 0.5
    """That noise is clipped to this."""
    noise: NoiseConfig = field(default_factory=NoiseConfig)
    """Exploration."""
    replay: ReplayConfig = field(default_factory=lambda: ReplayConfig(capacity=1_000_000))
    """The memory that is learnt from."""
    network: NetworkConfig = field(default_factory=wide_network)
    """Of the actor and of each critic."""
