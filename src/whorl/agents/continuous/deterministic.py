"""The learning half that DDPG and TD3 share: critics follow a target, a deterministic actor climbs the first of them.

critic   minimise  weight * (Q_k(o, a) - y)^2  for each critic k,  y = r + discount * (value of the next observation)
policy   maximise  Q_1(o, mu(o)):  gradient  dQ_1/da * dmu/dparameters     (Silver et al. 2014)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from whorl.agents.continuous.acting import parameter_plan
from whorl.agents.continuous.inputs import EncodedRows, formula_form, tensor_form
from whorl.agents.continuous.learning import ContinuousLearning
from whorl.agents.continuous.settings import ContinuousConfig
from whorl.agents.contract import AgentSpec, LearnerSettings, Step
from whorl.agents.off_policy.phases import Contributed, Phase
from whorl.agents.off_policy.targets import Following
from whorl.models.bounded_actor import BoundedActor
from whorl.models.critics import Critics
from whorl.models.towers import Tower
from whorl.ops.critics import clipped_double_q, critic_errors
from whorl.ops.namespace import AnyArray, host, namespace
from whorl.ops.td import td_target
from whorl.replay.buffer import Batch
from whorl.types import EnvSpec


class DeterministicConfig(ContinuousConfig, Protocol):
    """What the shared code reads of an agent's settings."""

    @property
    def policy_learning_rate(self) -> float: ...
    @property
    def critic_learning_rate(self) -> float: ...


class DeterministicLearning(ContinuousLearning):
    """``policy_delay`` gradient steps of the critics come to one of the actor and of the target networks."""

    def __init__(
        self,
        config: DeterministicConfig,
        env: EnvSpec,
        settings: LearnerSettings,
        spec: AgentSpec,
        network: BoundedActor,
        policy_delay: int = 1,
    ) -> None:
        plan = parameter_plan(network)
        phases = {
            "critic": Phase(plan.part("critic"), config.critic_learning_rate, metrics=("critic_loss", "q_mean")),
            "policy": Phase(plan.part("policy"), config.policy_learning_rate, metrics=("policy_loss",)),
        }
        targets = {"all": Following(plan.part("policy", "critic"), config.tau, every=policy_delay)}
        super().__init__(config, env, settings, spec, plan, network, phases, targets)
        self._policy_delay = policy_delay
        self._target_actor = Tower(network.config, self.targets["all"].tensors, "policy", self.scratch)
        self._target_critics = Critics(network, self.targets["all"].tensors, self.scratch)

    def phases(self) -> Sequence[str]:
        """The actor's turn comes with every ``policy_delay``-th gradient step."""
        return ("critic", "policy") if (self.gradient_steps + 1) % self._policy_delay == 0 else ("critic",)

    def gradient(self, step: Step, shard: int, batch: Batch, gradients: dict[str, Tensor]) -> Contributed:
        """The gradient of one phase, summed over the batch."""
        drawn = self.inputs(batch, shard)
        if step.phase == "policy":
            return self._policy_gradient(drawn.now, gradients)
        target = td_target(drawn.reward, drawn.discount, self._next_value(drawn.then, step, shard))
        q = formula_form(self.critics.forward(drawn.now.inputs))
        errors = critic_errors(q, target, drawn.weight)
        self.critics.backward(tensor_form(errors.gradient), gradients)
        sums = (self.shard_batch, float(errors.loss.sum()), float(q[0].sum()))
        return Contributed(sums, host(errors.error))

    def _policy_gradient(self, now: EncodedRows, gradients: dict[str, Tensor]) -> Contributed:
        action = self._tanh(self.actor.forward(now.features))
        now.actions[...] = action
        q = self.critics.first_value(now.inputs)
        d_action = formula_form(self.critics.action_gradient(torch.full_like(q, -1)))
        self.actor.backward(tensor_form(d_action * (1 - action * action)), gradients)
        return Contributed((self.shard_batch, -float(q.sum())))

    def _next_value(self, then: EncodedRows, step: Step, shard: int) -> AnyArray:
        """[N]: what the target networks say of the next observation."""
        action = self._tanh(self._target_actor.outputs(then.features))
        then.actions[...] = self.smooth(action, step, shard)
        return clipped_double_q(formula_form(self._target_critics.values(then.inputs)))

    @staticmethod
    def _tanh(outputs: Tensor) -> AnyArray:
        array = formula_form(outputs)
        return namespace(array).tanh(array)

    def smooth(self, action: AnyArray, step: Step, shard: int) -> AnyArray:
        """What becomes of the target actor's actions [size, N]: nothing, by default."""
        del step, shard
        return action
