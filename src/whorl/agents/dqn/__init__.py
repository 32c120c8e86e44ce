"""Deep Q-learning."""

from __future__ import annotations

from whorl.agents.contract import Agent, LearnerSettings, Learning, Postprocess
from whorl.agents.dqn.acting import policy, spec
from whorl.agents.dqn.config import DQNConfig
from whorl.agents.dqn.memory import memory
from whorl.types import EnvSpec


def _learning(config: DQNConfig, env: EnvSpec, settings: LearnerSettings) -> Learning:
    if config.network.core == "lstm":
        from whorl.agents.dqn.recurrent import RecurrentDQNLearning

        return RecurrentDQNLearning(config, env, settings)
    from whorl.agents.dqn.learning import DQNLearning

    return DQNLearning(config, env, settings)


def _postprocess(config: DQNConfig, env: EnvSpec) -> Postprocess:
    from whorl.agents.dqn.priorities import DQNPostprocess

    return DQNPostprocess(config, env)


AGENT = Agent(
    name="dqn",
    summary="Deep Q-learning from replay: double, dueling, n-step, prioritised, recurrent; discrete actions",
    config=DQNConfig,
    spec=spec,
    policy=policy,
    learning=_learning,
    memory=memory,
    postprocess=_postprocess,
)
