"""Settings of A2C."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from whorl.config.bounds import AtLeast, AtMost, MoreThan
from whorl.models.config import NetworkConfig


@dataclass(frozen=True)
class A2CConfig:
    """Advantage actor-critic (Mnih et al. 2016, its synchronous form)."""

    learning_rate: Annotated[float, MoreThan(0)] = 7e-4
    """Of the optimiser."""
    anneal: Literal["none", "linear"] = "none"
    """``linear`` lowers the learning rate to 0 over the run."""
    optimiser: Literal["rmsprop", "adam"] = "rmsprop"
    """RMSprop as in the paper, or Adam."""
    optimiser_eps: Annotated[float, MoreThan(0)] = 1e-5
    """The optimiser's epsilon."""
    rows: Annotated[int, AtLeast(1)] = 5
    """Rows per lane and update."""
    value_coefficient: Annotated[float, AtLeast(0)] = 0.5
    """Weight of the value's squared error (which has no factor 1/2)."""
    entropy_coefficient: Annotated[float, AtLeast(0)] = 0.0
    """Weight of the entropy bonus."""
    max_grad_norm: Annotated[float, MoreThan(0)] = 0.5
    """Gradients are scaled down to this norm."""
    discount: Annotated[float, AtLeast(0), AtMost(1)] = 0.99
    """Of later rewards."""
    gae_lambda: Annotated[float, AtLeast(0), AtMost(1)] = 1.0
    """Of generalised advantage estimation: 0 trusts the value, 1 trusts the returns."""
    vtrace: bool = False
    """Correct for stale data by V-trace (Espeholt et al. 2018); ``gae_lambda`` is then its lambda. On fresh data the
    same as without."""
    rho_bar: Annotated[float, MoreThan(0)] = 1.0
    """With ``vtrace``: the limit of the ratios that weigh each row."""
    c_bar: Annotated[float, MoreThan(0)] = 1.0
    """With ``vtrace``: the limit of the ratios that cut the trace short."""
    normalise_advantages: bool = False
    """Bring the advantages of a batch to mean 0 and deviation 1."""
    normalise_observations: bool = False
    """Bring vector observations to mean 0 and deviation 1, by running statistics, clipped at 10."""
    normalise_rewards: bool = False
    """Divide rewards by the running deviation of their discounted sum, clipped at 10."""
    network: NetworkConfig = field(default_factory=NetworkConfig)
    """Between observation and heads."""
