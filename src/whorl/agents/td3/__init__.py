"""Twin delayed deep deterministic policy gradient."""

from __future__ import annotations

from whorl.agents.continuous.memory import memory_of
from whorl.agents.contract import Agent, LearnerSettings, Learning, Postprocess
from whorl.agents.td3.acting import network, policy, spec
from whorl.agents.td3.config import TD3Config
from whorl.types import EnvSpec


def _learning(config: TD3Config, env: EnvSpec, settings: LearnerSettings) -> Learning:
    from whorl.agents.td3.learning import TD3Learning

    return TD3Learning(config, env, settings)


def _postprocess(config: TD3Config, env: EnvSpec) -> Postprocess:
    from whorl.agents.continuous.priorities import ContinuousPostprocess

    return ContinuousPostprocess(config, network(config, env))


AGENT = Agent(
    name="td3",
    summary="Twin delayed DDPG: the lesser of two critics, a patient actor, smoothed targets; continuous actions",
    config=TD3Config,
    spec=spec,
    policy=policy,
    learning=_learning,
    memory=memory_of(spec),
    postprocess=_postprocess,
)
