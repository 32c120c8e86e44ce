"""The learning half of PPO: the clipped objective over several epochs of minibatches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from whorl.agents.actor_critic.estimating import EstimatingLearning
from whorl.agents.actor_critic.objective import Gradients, Minibatch, combine, evaluate
from whorl.agents.actor_critic.optimiser import Adam
from whorl.agents.contract import LearnerSettings, Progress
from whorl.agents.ppo.acting import spec
from whorl.agents.ppo.config import PPOConfig
from whorl.models.heads import Head
from whorl.models.torch_forward import Outputs
from whorl.ops.losses import RowLoss, clipped_value_error, ppo_clip, value_error
from whorl.types import Array, Arrays, EnvSpec

_KL_MARGIN = 1.5


class PPOLearning(EstimatingLearning):
    """Clipped surrogate, value error, entropy bonus."""

    metric_names: ClassVar[tuple[str, ...]] = ("policy_loss", "value_loss", "entropy", "kl", "clip_fraction")

    def __init__(self, config: PPOConfig, env: EnvSpec, settings: LearnerSettings) -> None:
        self.epochs, self.minibatches = config.epochs, config.minibatches
        super().__init__(config, env, spec(config, env), settings, Adam, config.adam_eps)
        self._ppo = config
        self._clip = config.clip
        self._objective: Callable[..., Gradients] = self.compiled(objective)

    def begin(self, shards: Mapping[int, Arrays], progress: Progress) -> None:
        """Take this learner's shards of the batch, and the clip range of this update."""
        super().begin(shards, progress)
        annealed = self._ppo.anneal_clip == "linear"
        self._clip = self._ppo.clip * (1 - progress.fraction if annealed else 1.0)

    def objective(self, outputs: Outputs, batch: Minibatch) -> Gradients:
        """Gradients of PPO's loss."""
        return self._objective(self._ppo, self.network.head, outputs, batch, self._clip)

    def too_far(self, sums: Array) -> bool:
        """Whether the policy has moved further than the target KL allows."""
        return 0 < self._ppo.target_kl * _KL_MARGIN < float(sums[4] / sums[0])


def objective(config: PPOConfig, head: Head, outputs: Outputs, batch: Minibatch, clip: float) -> Gradients:
    """Equation 9 of Schulman et al. (2017), as sums over the minibatch's valid rows."""
    evaluated = evaluate(head, outputs.policy, batch.taken)
    surrogate = ppo_clip(evaluated.log_prob, batch.log_prob, batch.advantage, batch.weight, clip)
    if config.clip_value:
        value = clipped_value_error(outputs.value, batch.value, batch.returns, batch.weight, config.clip_value)
    else:
        value = value_error(outputs.value, batch.returns, batch.weight)
    return combine(
        head,
        batch,
        evaluated,
        RowLoss(surrogate.loss, surrogate.gradient),
        value,
        config.value_coefficient,
        config.entropy_coefficient,
        (surrogate.kl, surrogate.clipped),
    )
