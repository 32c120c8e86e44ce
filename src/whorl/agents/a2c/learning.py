"""The learning half of A2C: one policy-gradient step for each batch."""

from __future__ import annotations

from collections.abc import Callable

from whorl.agents.a2c.config import A2CConfig
from whorl.agents.actor_critic.learning import ActorCriticLearning
from whorl.agents.actor_critic.objective import Gradients, combine, evaluate
from whorl.agents.actor_critic.optimiser import Adam, RMSprop
from whorl.agents.actor_critic.shard import Minibatch
from whorl.agents.contract import LearnerSettings
from whorl.models.heads import Head
from whorl.models.torch_forward import Outputs
from whorl.ops.losses import policy_gradient, value_error
from whorl.types import EnvSpec


class A2CLearning(ActorCriticLearning):
    """Policy gradient, value error, entropy bonus; one pass over the whole batch."""

    def __init__(self, config: A2CConfig, env: EnvSpec, settings: LearnerSettings) -> None:
        optimiser = Adam if config.optimiser == "adam" else RMSprop
        super().__init__(config, env, settings, optimiser, config.optimiser_eps)
        self._a2c = config
        self._objective: Callable[..., Gradients] = self.compiled(objective)

    def objective(self, outputs: Outputs, batch: Minibatch) -> Gradients:
        """Gradients of A2C's loss."""
        return self._objective(self._a2c, self.network.head, outputs, batch)


def objective(config: A2CConfig, head: Head, outputs: Outputs, batch: Minibatch) -> Gradients:
    """Policy gradient with a baseline, value error and entropy bonus, as sums over the batch's valid rows."""
    evaluated = evaluate(head, outputs.policy, batch.taken)
    policy = policy_gradient(evaluated.log_prob, batch.advantage, batch.weight)
    value = value_error(outputs.value, batch.returns, batch.weight)
    return combine(head, batch, evaluated, policy, value, config.value_coefficient, config.entropy_coefficient, ())
