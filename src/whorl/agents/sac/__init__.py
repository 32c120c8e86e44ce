"""Soft actor-critic."""

from __future__ import annotations

from whorl.agents.continuous.memory import memory_of
from whorl.agents.contract import Agent, LearnerSettings, Learning, Postprocess
from whorl.agents.sac.acting import policy, spec
from whorl.agents.sac.config import SACConfig
from whorl.types import EnvSpec


def _learning(config: SACConfig, env: EnvSpec, settings: LearnerSettings) -> Learning:
    from whorl.agents.sac.learning import SACLearning

    return SACLearning(config, env, settings)


def _postprocess(config: SACConfig, env: EnvSpec) -> Postprocess:
    from whorl.agents.sac.priorities import SACPostprocess

    return SACPostprocess(config, env)


AGENT = Agent(
    name="sac",
    summary="Soft actor-critic: earns reward while staying as random as it may; continuous actions",
    config=SACConfig,
    spec=spec,
    policy=policy,
    learning=_learning,
    memory=memory_of(spec),
    postprocess=_postprocess,
)
