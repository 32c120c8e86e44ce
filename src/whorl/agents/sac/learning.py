"""The learning half of SAC.

critic   minimise  weight * (Q_k(o, a) - y)^2  for each critic k,
         y = r + discount * (min_k Q'_k(o', a') - alpha log pi(a' | o')),  a' ~ pi
policy   minimise  alpha log pi(a | o) - min_k Q_k(o, a),  a ~ pi by reparametrisation,
         and move the temperature alpha so that the entropy -log pi comes to its target
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from torch import Tensor

from whorl.agents.continuous.inputs import EncodedRows, formula_form, tensor_form
from whorl.agents.continuous.learning import ContinuousLearning
from whorl.agents.contract import LearnerSettings, Step
from whorl.agents.off_policy.phases import Contributed, Phase
from whorl.agents.off_policy.targets import Following
from whorl.agents.sac.acting import LOG_TEMPERATURE, network, plan, spec
from whorl.agents.sac.config import SACConfig
from whorl.models.critics import Critics
from whorl.ops.bounded import Squashed, squashed_gaussian, squashed_gaussian_gradient
from whorl.ops.critics import (
    clipped_double_q,
    clipped_double_q_gradient,
    critic_errors,
    soft_value,
    temperature_gradient,
)
from whorl.ops.namespace import host, namespace
from whorl.ops.td import td_target
from whorl.replay.buffer import Batch
from whorl.types import EnvSpec


class SACLearning(ContinuousLearning):
    """A stochastic actor, two critics with targets, a temperature."""

    def __init__(self, config: SACConfig, env: EnvSpec, settings: LearnerSettings) -> None:
        described = network(config, env)
        parts = plan(described)
        moved = ("policy", "temperature") if config.automatic_temperature else ("policy",)
        measured = ("policy_loss", "entropy", "temperature")
        phases = {
            "critic": Phase(parts.part("critic"), config.critic_learning_rate, metrics=("critic_loss", "q_mean")),
            "policy": Phase(parts.part(*moved), config.learning_rate, metrics=measured),
        }
        targets = {"critics": Following(parts.part("critic"), config.tau)}
        super().__init__(config, env, settings, spec(config, env), parts, described, phases, targets)
        self._target_critics = Critics(described, self.targets["critics"].tensors, self.scratch)
        self._start = math.log(config.temperature)
        self._target_entropy = config.target_entropy * described.head.size

    @property
    def temperature(self) -> float:
        """As it is now."""
        return math.exp(self._start + float(self.parameters.tensors[LOG_TEMPERATURE]))

    def phases(self) -> Sequence[str]:
        """Critics, then the actor with the temperature."""
        return ("critic", "policy")

    def gradient(self, step: Step, shard: int, batch: Batch, gradients: dict[str, Tensor]) -> Contributed:
        """The gradient of one phase, summed over the batch."""
        drawn = self.inputs(batch, shard)
        if step.phase == "policy":
            return self._policy_gradient(drawn.now, step, shard, gradients)
        sample = self._sample(self.actor.outputs, drawn.then, step, shard)
        q_next = formula_form(self._target_critics.values(drawn.then.inputs))
        target = td_target(drawn.reward, drawn.discount, soft_value(q_next, sample.log_prob, self.temperature))
        q = formula_form(self.critics.forward(drawn.now.inputs))
        errors = critic_errors(q, target, drawn.weight)
        self.critics.backward(tensor_form(errors.gradient), gradients)
        sums = (self.shard_batch, float(errors.loss.sum()), float(q[0].sum()))
        return Contributed(sums, host(errors.error))

    def _policy_gradient(self, now: EncodedRows, step: Step, shard: int, gradients: dict[str, Tensor]) -> Contributed:
        rows, temperature = self.shard_batch, self.temperature
        sample = self._sample(self.actor.forward, now, step, shard)
        q = formula_form(self.critics.forward(now.inputs))
        d_action = formula_form(self.critics.action_gradient(tensor_form(-clipped_double_q_gradient(q))))
        d_log_prob = namespace(q).full_like(sample.log_prob, temperature)
        self.actor.backward(tensor_form(squashed_gaussian_gradient(sample, d_action, d_log_prob)), gradients)
        gradients[LOG_TEMPERATURE].fill_(float(temperature_gradient(sample.log_prob, self._target_entropy).sum()))
        log_prob, value = float(sample.log_prob.sum()), float(clipped_double_q(q).sum())
        return Contributed((rows, temperature * log_prob - value, -log_prob, rows * temperature))

    def _sample(self, actor: Callable[[Tensor], Tensor], rows: EncodedRows, step: Step, shard: int) -> Squashed:
        """Draw an action for each row, and put it into the critics' inputs."""
        sample = squashed_gaussian(formula_form(actor(rows.features)), self.normal(step, shard))
        rows.actions[...] = sample.action
        return sample
