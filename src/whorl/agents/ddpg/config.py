"""Settings of DDPG."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from whorl.agents.continuous.settings import NoiseConfig, wide_network
from whorl.agents.off_policy.settings import ReplayConfig
from whorl.config.bounds import AtLeast, AtMost, MoreThan
from whorl.models.config import NetworkConfig


@dataclass(frozen=True)
class DDPGConfig:
    """Deep deterministic policy gradient (Lillicrap et al. 2016)."""

    policy_learning_rate: Annotated[float, MoreThan(0)] = 1e-3
    """Of the actor's Adam."""
    critic_learning_rate: Annotated[float, MoreThan(0)] = 1e-3
    """Of the critic's Adam."""
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
    """Rewards summed before the critic takes over."""
    tau: Annotated[float, MoreThan(0), AtMost(1)] = 0.005
    """The share of the way that target networks move after each gradient step."""
    noise: NoiseConfig = field(default_factory=lambda: NoiseConfig("ou", sigma=0.2))
    """Exploration."""
    replay: ReplayConfig = field(default_factory=lambda: ReplayConfig(capacity=1_000_000))
    """The memory that is learnt from."""
    network: NetworkConfig = field(default_factory=wide_network)
    """Of the actor and of the critic, each."""
