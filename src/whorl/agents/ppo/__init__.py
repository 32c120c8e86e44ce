"""Proximal policy optimisation."""

from __future__ import annotations

from whorl.agents.contract import Agent, LearnerSettings, Learning
from whorl.agents.ppo.acting import policy, spec
from whorl.agents.ppo.config import PPOConfig
from whorl.types import EnvSpec


def _learning(config: PPOConfig, env: EnvSpec, settings: LearnerSettings) -> Learning:
    from whorl.agents.ppo.learning import PPOLearning

    return PPOLearning(config, env, settings)


AGENT = Agent(
    name="ppo",
    summary="Proximal policy optimisation: a clipped policy gradient, several passes over each batch",
    config=PPOConfig,
    spec=spec,
    policy=policy,
    learning=_learning,
)
