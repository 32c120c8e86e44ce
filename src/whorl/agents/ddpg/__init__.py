"""Deep deterministic policy gradient."""

from __future__ import annotations

from whorl.agents.contract import Agent, LearnerSettings, Learning
from whorl.agents.ddpg.acting import policy, spec
from whorl.agents.ddpg.config import DDPGConfig
from whorl.types import EnvSpec


def _learning(config: DDPGConfig, env: EnvSpec, settings: LearnerSettings) -> Learning:
    from whorl.agents.ddpg.learning import DDPGLearning

    return DDPGLearning(config, env, settings)


AGENT = Agent(
    name="ddpg",
    summary="Deep deterministic policy gradient: continuous actions, climbs a critic learnt from replay",
    config=DDPGConfig,
    spec=spec,
    policy=policy,
    learning=_learning,
)
