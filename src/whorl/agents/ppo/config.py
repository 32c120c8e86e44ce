"""Settings of PPO."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from whorl.config.bounds import AtLeast, AtMost, MoreThan
from whorl.models.config import NetworkConfig


@dataclass(frozen=True)
class PPOConfig:
    """Proximal policy optimisation (Schulman et al. 2017)."""

    learning_rate: Annotated[float, MoreThan(0)] = 3e-4
    """Of Adam."""
    anneal: Literal["none", "linear"] = "none"
    """``linear`` lowers the learning rate to 0 over the run."""
    adam_eps: Annotated[float, MoreThan(0)] = 1e-5
    """Adam's epsilon."""
    rows: Annotated[int, AtLeast(1)] = 128
    """Rows per lane and update."""
    epochs: Annotated[int, AtLeast(1)] = 10
    """Passes over each batch."""
    minibatches: Annotated[int, AtLeast(1)] = 4
    """Parts that each pass is cut into, each a gradient step. With an LSTM a part is whole lanes."""
    clip: Annotated[float, MoreThan(0)] = 0.2
    """How far the probability ratio may leave 1."""
    anneal_clip: Literal["none", "linear"] = "none"
    """``linear`` lowers ``clip`` towards 0 over the run."""
    clip_value: Annotated[float, AtLeast(0)] = 0.0
    """How far a value may move in one update. 0: as far as it likes."""
    value_coefficient: Annotated[float, AtLeast(0)] = 0.5
    """Weight of the value's squared error (which has no factor 1/2)."""
    entropy_coefficient: Annotated[float, AtLeast(0)] = 0.0
    """Weight of the entropy bonus."""
    max_grad_norm: Annotated[float, MoreThan(0)] = 0.5
    """Gradients are scaled down to this norm."""
    discount: Annotated[float, AtLeast(0), AtMost(1)] = 0.99
    """Of later rewards."""
    gae_lambda: Annotated[float, AtLeast(0), AtMost(1)] = 0.95
    """Of generalised advantage estimation: 0 trusts the value, 1 trusts the returns."""
    vtrace: bool = False
    """Correct for stale data by V-trace (Espeholt et al. 2018); ``gae_lambda`` is then its lambda. On fresh data the
    same as without."""
    rho_bar: Annotated[float, MoreThan(0)] = 1.0
    """With ``vtrace``: the limit of the ratios that weigh each row."""
    c_bar: Annotated[float, MoreThan(0)] = 1.0
    """With ``vtrace``: the limit of the ratios that cut the trace short."""
    normalise_advantages: bool = True
    """Bring the advantages of a batch to mean 0 and deviation 1."""
    target_kl: Annotated[float, AtLeast(0)] = 0.0
    """An update ends once the policy has moved by 1.5 times this. 0: never."""
    normalise_observations: bool = False
    """Bring vector observations to mean 0 and deviation 1, by running statistics, clipped at 10."""
    normalise_rewards: bool = False
    """Divide rewards by the running deviation of their discounted sum, clipped at 10."""
    network: NetworkConfig = field(default_factory=NetworkConfig)
    """Between observation and heads."""
