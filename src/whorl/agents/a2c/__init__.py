"""Advantage actor-critic."""

from __future__ import annotations

from whorl.agents.a2c.acting import policy, spec
from whorl.agents.a2c.config import A2CConfig
from whorl.agents.contract import Agent, LearnerSettings, Learning
from whorl.types import EnvSpec


def _learning(config: A2CConfig, env: EnvSpec, settings: LearnerSettings) -> Learning:
    from whorl.agents.a2c.learning import A2CLearning

    return A2CLearning(config, env, settings)


AGENT = Agent(
    name="a2c",
    summary="Advantage actor-critic: one policy-gradient step for each short batch",
    config=A2CConfig,
    spec=spec,
    policy=policy,
    learning=_learning,
)
