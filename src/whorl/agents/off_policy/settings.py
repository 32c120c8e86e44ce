"""The settings that every agent with a replay has. Each agent's own dataclass lists and documents them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Protocol

from whorl.config.bounds import AtLeast, AtMost
from whorl.models.config import NetworkConfig


@dataclass(frozen=True)
class ReplayConfig:
    """The memory that is learnt from."""

    capacity: Annotated[int, AtLeast(1)] = 100_000
    """Rows kept, over all environments; older ones are overwritten."""
    prioritised: bool = False
    """Draw what was learnt least well more often (Schaul et al. 2016), instead of everything equally often."""
    alpha: Annotated[float, AtLeast(0), AtMost(1)] = 0.6
    """How closely draws follow the priorities: 0 not at all, 1 in proportion. Prioritised replay only."""
    beta_start: Annotated[float, AtLeast(0), AtMost(1)] = 0.4
    """How far importance weights undo the unequal draws at the start of the run; 1 (wholly) at its end. Prioritised
    replay only."""

    @property
    def exponent(self) -> float:
        """Of the priorities: 0 for uniform draws."""
        return self.alpha if self.prioritised else 0.0

    def beta(self, fraction: float) -> float:
        """The exponent of the importance weights after this fraction of the run."""
        return self.beta_start + (1 - self.beta_start) * fraction


class OffPolicyConfig(Protocol):
    """What the shared code reads of an agent's settings."""

    @property
    def rows(self) -> int: ...
    @property
    def batch_size(self) -> int: ...
    @property
    def gradient_steps(self) -> int: ...
    @property
    def learning_starts(self) -> int: ...
    @property
    def discount(self) -> float: ...
    @property
    def n_step(self) -> int: ...
    @property
    def replay(self) -> ReplayConfig: ...
    @property
    def network(self) -> NetworkConfig: ...
