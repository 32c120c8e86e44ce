"""Settings of IMPALA."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from whorl.config.bounds import AtLeast, AtMost, MoreThan
from whorl.models.config import NetworkConfig


@dataclass(frozen=True)
class ImpalaConfig:
    """IMPALA (Espeholt et al. 2018)."""

    learning_rate: Annotated[float, MoreThan(0)] = 5e-4
    """Of the optimiser."""
    anneal: Literal["none", "linear"] = "none"
    """``linear`` lowers the learning rate to 0 over the run."""
    optimiser: Literal["adam", "rmsprop"] = "adam"
    """Adam, or RMSprop as in the paper."""
    optimiser_eps: Annotated[float, MoreThan(0)] = 1e-5
    """The optimiser's epsilon."""
    rows: Annotated[int, AtLeast(1)] = 20
    """Rows per lane and update."""
    minibatches: Annotated[int, AtLeast(1)] = 1
    """Parts that a batch is cut into, each a gradient step. A part is whole lanes, because V-trace goes along them."""
    value_coefficient: Annotated[float, AtLeast(0)] = 0.5
    """Weight of the value's squared error (which has no factor 1/2)."""
    entropy_coefficient: Annotated[float, AtLeast(0)] = 0.01
    """Weight of the entropy bonus."""
    max_grad_norm: Annotated[float, MoreThan(0)] = 0.5
    """Gradients are scaled down to this norm."""
    discount: Annotated[float, AtLeast(0), AtMost(1)] = 0.99
    """Of later rewards."""
    trace_lambda: Annotated[float, AtLeast(0), AtMost(1)] = 1.0
    """V-trace's lambda: 0 trusts the value, 1 trusts the returns."""
    rho_bar: Annotated[float, MoreThan(0)] = 1.0
    """The limit of the ratios that weigh each row: decides which policy the values are of."""
    c_bar: Annotated[float, MoreThan(0)] = 1.0
    """The limit of the ratios that cut the trace short: decides how fast values are learnt."""
    normalise_observations: bool = False
    """Bring vector observations to mean 0 and deviation 1, by running statistics, clipped at 10."""
    normalise_rewards: bool = False
    """Divide rewards by the running deviation of their discounted sum, clipped at 10."""
    network: NetworkConfig = field(default_factory=NetworkConfig)
    """Between observation and heads."""
