"""The learning half of IMPALA: one forward over whole lanes gives ratios, V-trace targets and the gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from whorl.agents.actor_critic.learning import ActorCriticLearning
from whorl.agents.actor_critic.objective import Gradients, actor_critic_objective, evaluate
from whorl.agents.actor_critic.optimiser import Adam, RMSprop
from whorl.agents.actor_critic.settings import Trace
from whorl.agents.actor_critic.shard import Shard
from whorl.agents.contract import LearnerSettings, Step
from whorl.agents.impala.acting import spec
from whorl.agents.impala.config import ImpalaConfig
from whorl.models.torch_forward import Outputs
from whorl.ops.namespace import AnyArray, host, like, namespace
from whorl.types import EnvSpec

_EPS = 1e-8
_LOG_LIMIT = 20
"""The shown KL takes larger log-ratios as this."""


class ImpalaLearning(ActorCriticLearning):
    """Policy gradient weighed by rho, value error, entropy bonus; one pass over each batch."""

    metric_names: ClassVar[tuple[str, ...]] = ("policy_loss", "value_loss", "entropy", "rho", "kl")

    def __init__(self, config: ImpalaConfig, env: EnvSpec, settings: LearnerSettings) -> None:
        self.minibatches = config.minibatches
        optimiser = Adam if config.optimiser == "adam" else RMSprop
        super().__init__(config, env, spec(config, env), settings, optimiser, config.optimiser_eps)
        self._trace = Trace(config.discount, config.trace_lambda, (config.rho_bar, config.c_bar))
        self._coefficients = (config.value_coefficient, config.entropy_coefficient)
        self._objective: Callable[..., Gradients] = self.compiled(actor_critic_objective)

    def gradients(self, rows: Shard, key: tuple[int, ...], step: Step) -> Gradients:
        """Forward over every row of some lanes, V-trace with the weights as they are now, gradients of its loss."""
        lanes = rows.part_of_lanes(key, step.epoch, step.minibatch, self.minibatches)
        batch = rows.sequences(lanes, self.model.gives_numpy)
        outputs = self.model.forward(batch.inputs)
        learnt = len(batch.weight)
        acted = Outputs(outputs.policy[:, :learnt], outputs.value[:learnt])
        # V-trace walks back through a few thousand numbers: that is the host's work, whatever the device.
        log_ratio = host(evaluate(self.network.head, acted.policy, batch.taken).log_prob - batch.log_prob)
        traced = rows.corrected(lanes, log_ratio, host(outputs.value), self._trace, self.normaliser.reward_scale)
        advantage, returns = (traced.advantages * traced.rho).reshape(-1), traced.returns.reshape(-1)
        batch = batch._replace(advantage=like(batch.weight, advantage), returns=like(batch.weight, returns))
        gradients = self._objective(self.network.head, acted, batch, *self._coefficients)
        kl = (np.expm1(log_ratio.clip(None, _LOG_LIMIT)) - log_ratio)[host(batch.weight) > 0]
        sums = [traced.rho.sum(), kl.sum(), returns.sum(), (returns**2).sum()]
        # Nothing is learnt about the bootstrap rows.
        d_policy, d_value = (_lengthened(part, len(outputs.value)) for part in (gradients.d_policy, gradients.d_value))
        return Gradients(d_policy, d_value, np.concatenate([host(gradients.sums), sums]))

    def finish(self) -> dict[str, float]:
        """End the update, and say how well values explained returns."""
        rows, _, value_loss, *_, returns, returns_square = self.sums / max(self.sums[0], 1.0)
        spread = returns_square - returns**2
        self.metrics["explained_variance"] = float(1 - value_loss / spread) if rows and spread > _EPS else 0.0
        return super().finish()


def _lengthened(columns: AnyArray, count: int) -> AnyArray:
    """``count`` columns, the new ones zero."""
    missing = np.zeros((*columns.shape[:-1], count - columns.shape[-1]), np.float32)
    return namespace(columns).concatenate([columns, like(columns, missing)], -1)
