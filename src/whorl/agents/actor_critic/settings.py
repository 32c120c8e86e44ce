"""The settings that actor-critic agents have. Each agent's own dataclass lists and documents them."""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol

from whorl.models.config import NetworkConfig


class ActorCriticConfig(Protocol):
    """What the shared code reads of every agent's settings."""

    @property
    def learning_rate(self) -> float: ...
    @property
    def anneal(self) -> Literal["none", "linear"]: ...
    @property
    def rows(self) -> int: ...
    @property
    def value_coefficient(self) -> float: ...
    @property
    def entropy_coefficient(self) -> float: ...
    @property
    def max_grad_norm(self) -> float: ...
    @property
    def discount(self) -> float: ...
    @property
    def normalise_observations(self) -> bool: ...
    @property
    def normalise_rewards(self) -> bool: ...
    @property
    def network(self) -> NetworkConfig: ...


class EstimatingConfig(ActorCriticConfig, Protocol):
    """What agents have besides that estimate the advantages of a whole batch before they learn from it."""

    @property
    def gae_lambda(self) -> float: ...
    @property
    def normalise_advantages(self) -> bool: ...
    @property
    def vtrace(self) -> bool: ...
    @property
    def rho_bar(self) -> float: ...
    @property
    def c_bar(self) -> float: ...


class Trace(NamedTuple):
    """How returns are traced back: the discount, lambda and, for V-trace, the limits of the ratios."""

    discount: float
    lambda_: float
    limits: tuple[float, float] | None = None
    """(rho-bar, c-bar); None trusts that the rows are the policy's own."""
