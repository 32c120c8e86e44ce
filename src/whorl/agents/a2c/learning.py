"""The learning half of A2C: one policy-gradient step for each batch."""

from __future__ import annotations

from collections.abc import Callable

from whorl.agents.a2c.acting import spec
from whorl.agents.a2c.config import A2CConfig
from whorl.agents.actor_critic.estimating import EstimatingLearning
from whorl.agents.actor_critic.objective import Gradients, Minibatch, actor_critic_objective
from whorl.agents.actor_critic.optimiser import Adam, RMSprop
from whorl.agents.contract import LearnerSettings
from whorl.models.torch_forward import Outputs
from whorl.types import EnvSpec


class A2CLearning(EstimatingLearning):
    """Policy gradient, value error, entropy bonus; one pass over the whole batch."""

    def __init__(self, config: A2CConfig, env: EnvSpec, settings: LearnerSettings) -> None:
        optimiser = Adam if config.optimiser == "adam" else RMSprop
        super().__init__(config, env, spec(config, env), settings, optimiser, config.optimiser_eps)
        self._a2c = config
        self._objective: Callable[..., Gradients] = self.compiled(actor_critic_objective)

    def objective(self, outputs: Outputs, batch: Minibatch) -> Gradients:
        """Gradients of A2C's loss."""
        coefficients = (self._a2c.value_coefficient, self._a2c.entropy_coefficient)
        return self._objective(self.network.head, outputs, batch, *coefficients)
