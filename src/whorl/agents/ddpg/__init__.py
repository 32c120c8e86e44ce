"""Deep deterministic policy gradient."""

from __future__ import annotations

from whorl.agents.continuous.memory import memory_of
from whorl.agents.contract import Agent, LearnerSettings, Learning, Postprocess
from whorl.agents.ddpg.acting import network, policy, spec
from whorl.agents.ddpg.config import DDPGConfig
from whorl.types import EnvSpec


def _learning(config: DDPGConfig, env: EnvSpec, settings: LearnerSettings) -> Learning:
    from whorl.agents.ddpg.learning import DDPGLearning

    return DDPGLearning(config, env, settings)


def _postprocess(config: DDPGConfig, env: EnvSpec) -> Postprocess:
    from whorl.agents.continuous.priorities import ContinuousPostprocess

    return ContinuousPostprocess(config, network(config, env))


AGENT = Agent(
    name="ddpg",
    summary="Deep deterministic policy gradient: continuous actions, climbs a critic learnt from replay",
    config=DDPGConfig,
    spec=spec,
    policy=policy,
    learning=_learning,
    memory=memory_of(spec),
    postprocess=_postprocess,
)
