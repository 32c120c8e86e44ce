"""Settings of DQN."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from whorl.agents.off_policy.settings import ReplayConfig
from whorl.config.bounds import AtLeast, AtMost, MoreThan
from whorl.models.config import NetworkConfig


@dataclass(frozen=True)
class DQNConfig:
    """Deep Q-learning (Mnih et al. 2015) and what was found to help it."""

    learning_rate: Annotated[float, MoreThan(0)] = 5e-4
    """Of Adam."""
    adam_eps: Annotated[float, MoreThan(0)] = 1e-8
    """Adam's epsilon."""
    max_grad_norm: Annotated[float, MoreThan(0)] = 10.0
    """Gradients are scaled down to this norm."""
    rows: Annotated[int, AtLeast(1)] = 16
    """Rows per lane and update. With an LSTM this is also the length of the learnt part of a sequence."""
    gradient_steps: Annotated[int, AtLeast(1)] = 16
    """Gradient steps of each update."""
    batch_size: Annotated[int, AtLeast(1)] = 64
    """Transitions of each gradient step; with an LSTM, sequences."""
    learning_starts: Annotated[int, AtLeast(0)] = 1000
    """Environment steps before the first gradient step, which comes at the end of the batch after. Until then actions
    are random."""
    discount: Annotated[float, AtLeast(0), AtMost(1)] = 0.99
    """Of later rewards."""
    n_step: Annotated[int, AtLeast(1)] = 1
    """Rewards that are summed before the target network's estimate takes over."""
    double: bool = True
    """The online network chooses the next action and the target network values it (van Hasselt et al. 2016); otherwise
    the target network does both, which overestimates."""
    dueling: bool = False
    """A value and advantages instead of action values (Wang et al. 2016)."""
    huber_delta: Annotated[float, AtLeast(0)] = 1.0
    """Errors beyond this count linearly and not squared. 0: all are squared."""
    target_every: Annotated[int, AtLeast(1)] = 250
    """Gradient steps between moves of the target network."""
    target_tau: Annotated[float, MoreThan(0), AtMost(1)] = 1.0
    """How far the target network moves: 1 copies the online network; a small number with ``target_every = 1`` follows
    it smoothly."""
    epsilon_start: Annotated[float, AtLeast(0), AtMost(1)] = 1.0
    """Share of random actions at the start of the run."""
    epsilon_end: Annotated[float, AtLeast(0), AtMost(1)] = 0.05
    """Share of random actions after the schedule."""
    epsilon_fraction: Annotated[float, MoreThan(0), AtMost(1)] = 0.1
    """Part of the run over which epsilon goes down in a straight line. Actions follow it one batch later."""
    burn_in: Annotated[int, AtLeast(0)] = 0
    """Rows before the learnt ones of a sequence, which only bring the LSTM's stored state up to date."""
    sequence_priority: Annotated[float, AtLeast(0), AtMost(1)] = 0.9
    """A sequence's priority is this share of its largest error and the rest of its mean error."""
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    """The memory that is learnt from."""
    network: NetworkConfig = field(default_factory=lambda: NetworkConfig(activation="relu"))
    """Between observation and action values."""

    def epsilon(self, env_steps: int, total_env_steps: int) -> float:
        """The share of random actions at this point of the run."""
        if env_steps < self.learning_starts:
            return 1.0
        done = min(1.0, env_steps / max(1.0, self.epsilon_fraction * total_env_steps))
        return self.epsilon_start + (self.epsilon_end - self.epsilon_start) * done
