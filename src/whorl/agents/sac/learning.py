"""The learning half of SAC.

critic   minimise  weight * (Q_k(o, a) - y)^2  for each critic k,
         y = r + discount * (min_k Q'_k(o', a') - alpha log pi(a' | o')),  a' ~ pi
policy   minimise  alpha log pi(a | o) - min_k Q_k(o, a),  a ~ pi by reparametrisation,
         and move the temperature alpha so that the entropy -log pi comes to its target
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from whorl.agents.continuous.learning import ContinuousLearning
from whorl.agents.contract import LearnerSettings, Step
from whorl.agents.off_policy.learning import Contributed, Phase
from whorl.agents.off_policy.targets import Following
from whorl.agents.sac.acting import LOG_TEMPERATURE, network, plan, spec
from whorl.agents.sac.config import SACConfig
from whorl.models.critics import Critics
from whorl.ops.bounded import Squashed, squashed_gaussian, squashed_gaussian_gradient
from whorl.ops.critics import critic_errors, soft_value, temperature_gradient
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
        self._target_critics = Critics(described, self.targets["critics"].tensors)
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
        now, then = self.inputs(batch.transitions)
        if step.phase == "policy":
            return self._policy_gradient(now, step, shard, gradients)
        transitions = batch.transitions
        sample = self._sample(then, step, shard)
        value = soft_value(self._target_critics.values(then), sample.log_prob, self.temperature)
        target = td_target(self.tensor(transitions.reward), self.tensor(transitions.discount), value)
        q = self.critics.values(now)
        errors = critic_errors(q, target, self.tensor(batch.weights))
        self.critics.backward(errors.gradient, gradients)
        sums = (len(now), float(errors.loss.sum()), float(q[0].sum()))
        return Contributed(sums, errors.error.cpu().numpy())

    def _policy_gradient(self, now: Tensor, step: Step, shard: int, gradients: dict[str, Tensor]) -> Contributed:
        rows, temperature = len(now), self.temperature
        sample = self._sample(now, step, shard)
        q = self.critics.values(now)
        least, which = q.min(0)
        d_q = torch.zeros_like(q).scatter_(0, which[None], -1.0)
        d_log_prob = torch.full_like(sample.log_prob, temperature)
        d_outputs = squashed_gaussian_gradient(sample, self.critics.action_gradient(d_q), d_log_prob)
        self.actor.backward(d_outputs, gradients)
        torch.sum(temperature_gradient(sample.log_prob, self._target_entropy), 0, True, out=gradients[LOG_TEMPERATURE])
        log_prob = float(sample.log_prob.sum())
        return Contributed((rows, temperature * log_prob - float(least.sum()), -log_prob, rows * temperature))

    def _sample(self, inputs: Tensor, step: Step, shard: int) -> Squashed:
        """Draw an action for each row, and put it into the critics' inputs."""
        outputs = self.actor.forward(inputs[:, : self.features])
        sample = squashed_gaussian(outputs, self.normal(step, shard))
        inputs[:, self.features :] = sample.action.t()
        return sample
