"""The learning half of DDPG: one critic, and an actor that moves with every gradient step."""

from __future__ import annotations

from whorl.agents.continuous.deterministic import DeterministicLearning
from whorl.agents.contract import LearnerSettings
from whorl.agents.ddpg.acting import network, spec
from whorl.agents.ddpg.config import DDPGConfig
from whorl.types import EnvSpec


class DDPGLearning(DeterministicLearning):
    """Target  y = r + discount * Q'(o', mu'(o'))  (Lillicrap et al. 2016, algorithm 1)."""

    def __init__(self, config: DDPGConfig, env: EnvSpec, settings: LearnerSettings) -> None:
        super().__init__(config, env, settings, spec(config, env), network(config, env))
