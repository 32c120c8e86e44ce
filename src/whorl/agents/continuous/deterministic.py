"""The learning half that DDPG and TD3 share: critics follow a target, a deterministic actor climbs the first of them.

critic   minimise  weight * (Q_k(o, a) - y)^2  for each critic k,  y = r + discount * (value of the next observation)
policy   maximise  Q_1(o, mu(o)):  gradient  dQ_1/da * dmu/dparameters     (Silver et al. 2014)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from whorl.agents.continuous.acting import parameter_plan
from whorl.agents.continuous.learning import ContinuousLearning
from whorl.agents.continuous.settings import ContinuousConfig
from whorl.agents.contract import AgentSpec, LearnerSettings, Step
from whorl.agents.off_policy.learning import Contributed, Phase
from whorl.agents.off_policy.targets import Following
from whorl.models.bounded_actor import BoundedActor
from whorl.models.critics import Critics
from whorl.models.towers import Tower
from whorl.ops.critics import clipped_double_q, critic_errors
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
        self._target_actor = Tower(network.config, self.targets["all"].tensors, "policy")
        self._target_critics = Critics(network, self.targets["all"].tensors)

    def phases(self) -> Sequence[str]:
        """The actor's turn comes with every ``policy_delay``-th gradient step."""
        return ("critic", "policy") if (self.gradient_steps + 1) % self._policy_delay == 0 else ("critic",)

    def gradient(self, step: Step, shard: int, batch: Batch, gradients: dict[str, Tensor]) -> Contributed:
        """The gradient of one phase, summed over the batch."""
        now, then = self.inputs(batch.transitions)
        if step.phase == "policy":
            return self._policy_gradient(now, gradients)
        transitions = batch.transitions
        value = self._next_value(then, step, shard)
        target = td_target(self.tensor(transitions.reward), self.tensor(transitions.discount), value)
        q = self.critics.values(now)
        errors = critic_errors(q, target, self.tensor(batch.weights))
        self.critics.backward(errors.gradient, gradients)
        sums = (len(now), float(errors.loss.sum()), float(q[0].sum()))
        return Contributed(sums, errors.error.cpu().numpy())

    def _policy_gradient(self, now: Tensor, gradients: dict[str, Tensor]) -> Contributed:
        action = self.actor.forward(now[:, : self.features]).tanh_()
        now[:, self.features :] = action.t()
        q = self.critics.first_value(now)
        d_action = self.critics.action_gradient(q.new_full(q.shape, -1))
        self.actor.backward(d_action * (1 - action * action), gradients)
        return Contributed((len(now), -float(q.sum())))

    def _next_value(self, then: Tensor, step: Step, shard: int) -> Tensor:
        """[N]: what the target networks say of the next observation."""
        action = self._target_actor.forward(then[:, : self.features]).tanh_()
        then[:, self.features :] = self.smooth(action, step, shard).t()
        value: Tensor = clipped_double_q(self._target_critics.values(then))
        return value

    def smooth(self, action: Tensor, step: Step, shard: int) -> Tensor:
        """What becomes of the target actor's actions [size, N]: nothing, by default."""
        del step, shard
        return action
