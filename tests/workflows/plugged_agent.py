"""An agent of another package, with a memory and settings of its own: DQN underneath."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from whorl.agents.contract import Agent
from whorl.agents.dqn import AGENT as DQN
from whorl.agents.dqn.config import DQNConfig
from whorl.agents.off_policy.settings import ReplayConfig


@dataclass(frozen=True)
class Settings:
    """No name is one that our own agents use."""

    keep: int = 2000


def _dqn(settings: Settings) -> DQNConfig:
    return DQNConfig(rows=8, batch_size=16, gradient_steps=2, learning_starts=100, replay=ReplayConfig(settings.keep))


def _memory(settings: Settings, env: Any, size: Any) -> Any:
    assert DQN.memory is not None
    return DQN.memory(_dqn(settings), env, size)


AGENT = Agent(
    name="plugged",
    summary="an agent of another package",
    config=Settings,
    spec=lambda settings, env: DQN.spec(_dqn(settings), env),
    policy=lambda settings, env: DQN.policy(_dqn(settings), env),
    learning=lambda settings, env, where: DQN.learning(_dqn(settings), env, where),
    memory=_memory,
)
HIDES_MEMORY = replace(AGENT, memory=None)
