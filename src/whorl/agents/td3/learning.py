"""The learning half of TD3: DDPG with the lesser of two critics, a delayed actor and smoothed targets."""

from __future__ import annotations

from whorl.agents.continuous.deterministic import DeterministicLearning
from whorl.agents.contract import LearnerSettings, Step
from whorl.agents.td3.acting import network, spec
from whorl.agents.td3.config import TD3Config
from whorl.ops.bounded import smoothed
from whorl.ops.namespace import AnyArray
from whorl.types import EnvSpec


class TD3Learning(DeterministicLearning):
    """Target  y = r + discount * min_k Q'_k(o', clip(mu'(o') + clipped noise))  (Fujimoto et al. 2018, algorithm 1)."""

    def __init__(self, config: TD3Config, env: EnvSpec, settings: LearnerSettings) -> None:
        super().__init__(config, env, settings, spec(config, env), network(config, env), config.policy_delay)
        self._target_noise, self._limit = config.target_noise, config.target_noise_limit

    def smooth(self, action: AnyArray, step: Step, shard: int) -> AnyArray:
        """Target policy smoothing."""
        return smoothed(action, self.normal(step, shard), self._target_noise, self._limit)
