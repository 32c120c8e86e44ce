"""Agents that estimate the advantages of a whole batch before they learn from it: PPO and A2C.

advantages   values of every row in one batch, advantages (by GAE or, on stale data, V-trace), their mean and deviation
             over the whole batch
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator

from torch import Tensor

from whorl.agents.actor_critic.learning import ActorCriticLearning
from whorl.agents.actor_critic.objective import Gradients, Minibatch
from whorl.agents.actor_critic.optimiser import Optimiser
from whorl.agents.actor_critic.settings import EstimatingConfig, Trace
from whorl.agents.actor_critic.shard import Shard
from whorl.agents.contract import AgentSpec, LearnerSettings, Step
from whorl.models.torch_forward import Outputs
from whorl.types import Array, EnvSpec

_EPS = 1e-8


class EstimatingLearning(ActorCriticLearning):
    """Advantages of the whole batch, then minibatches of its rows."""

    def __init__(
        self,
        config: EstimatingConfig,
        env: EnvSpec,
        spec: AgentSpec,
        settings: LearnerSettings,
        optimiser: Callable[[Tensor, float], Optimiser],
        eps: float,
    ) -> None:
        super().__init__(config, env, spec, settings, optimiser, eps)
        limits = (config.rho_bar, config.c_bar) if config.vtrace else None
        self._trace = Trace(config.discount, config.gae_lambda, limits)
        self._normalise_advantages = config.normalise_advantages

    @abstractmethod
    def objective(self, outputs: Outputs, batch: Minibatch) -> Gradients:
        """Gradients of the agent's loss by the network's outputs, and the sums."""

    def before_minibatches(self) -> Iterator[Step]:
        """Advantages."""
        yield Step("advantages")

    def contribute_before(self, rows: Shard, step: Step) -> Array:
        """Sums over one shard's advantages, returns and ratios."""
        del step
        return rows.estimate(self.model, self._trace, self.normaliser.reward_scale)

    def apply_before(self, step: Step, sums: Array) -> None:
        """Normalise advantages over the whole batch's valid rows, and say how well values explained returns."""
        del step
        rows, advantage, advantage_square, returns, returns_square, error, error_square, rho = map(float, sums)
        rows = max(rows, 1.0)
        mean, scale = 0.0, 1.0
        if self._normalise_advantages:
            mean = advantage / rows
            scale = 1 / (math.sqrt(_variance(rows, advantage, advantage_square)) + _EPS)
        for shard in self.shards.values():
            shard.settle(mean, scale)
        spread = _variance(rows, returns, returns_square)
        unexplained = _variance(rows, error, error_square)
        self.metrics["explained_variance"] = 1 - unexplained / spread if spread > _EPS else 0.0
        if self._trace.limits is not None:
            self.metrics["rho"] = rho / rows

    def gradients(self, rows: Shard, key: tuple[int, ...], step: Step) -> Gradients:
        """One part of an epoch's shuffle."""
        batch = rows.minibatch(key, step.epoch, step.minibatch, self.minibatches, self.model.gives_numpy)
        return self.objective(self.model.forward(batch.inputs), batch)


def _variance(count: float, total: float, total_square: float) -> float:
    mean = total / count
    return max(0.0, total_square / count - mean**2)
