"""Twin delayed deep deterministic policy gradient."""

from __future__ import annotations

from whorl.agents.contract import Agent, LearnerSettings, Learning
from whorl.agents.td3.acting import policy, spec
from whorl.agents.td3.config import TD3Config
from whorl.types import EnvSpec


def _learning(config: TD3Config, env: EnvSpec, settings: LearnerSettings) -> Learning:
    from whorl.agents.td3.learning import TD3Learning

    return TD3Learning(config, env, settings)


AGENT = Agent(
    name="td3",
    summary="Twin delayed DDPG: the lesser of two critics, a patient actor, smoothed targets; continuous actions",
    config=TD3Config,
    spec=spec,
    policy=policy,
    learning=_learning,
)
