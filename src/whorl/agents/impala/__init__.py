"""IMPALA: actor-critic corrected by V-trace."""

from __future__ import annotations

from whorl.agents.contract import Agent, LearnerSettings, Learning
from whorl.agents.impala.acting import policy, spec
from whorl.agents.impala.config import ImpalaConfig
from whorl.types import EnvSpec


def _learning(config: ImpalaConfig, env: EnvSpec, settings: LearnerSettings) -> Learning:
    from whorl.agents.impala.learning import ImpalaLearning

    return ImpalaLearning(config, env, settings)


AGENT = Agent(
    name="impala",
    summary="IMPALA: actor-critic whose returns are corrected for stale data by V-trace",
    config=ImpalaConfig,
    spec=spec,
    policy=policy,
    learning=_learning,
    workflow="async",
)
