"""A replay of exactly the capacity that a refusal suggests works, and a smaller one could not."""

from __future__ import annotations

import dataclasses
import re

import pytest
from agent_batches import VECTOR, collect, env_spec, settings, update

from whorl.agents.contract import LearnerSettings, MemorySize
from whorl.agents.dqn.config import DQNConfig
from whorl.agents.off_policy.settings import ReplayConfig
from whorl.agents.registry import get_agent
from whorl.errors import ConfigError
from whorl.models.config import NetworkConfig
from whorl.types import Arrays, EnvSpec, ObservationLeaf

LANES, DQN = 2, get_agent("dqn")
STACKED = env_spec((ObservationLeaf("camera", "image", (4, 12, 10), "uint8", 0, 255, frames=4),))
SMALL = DQNConfig(rows=7, batch_size=1, gradient_steps=1, learning_starts=0, n_step=2)
PLAIN = dataclasses.replace(SMALL, network=NetworkConfig(hidden=(4,), image_features=4))
SEQUENCES = dataclasses.replace(SMALL, network=NetworkConfig(hidden=(4,), core="lstm", lstm_size=3))


def sized(config: DQNConfig, capacity: int) -> DQNConfig:
    return dataclasses.replace(config, replay=ReplayConfig(capacity=capacity))


def suggested(config: DQNConfig, env: EnvSpec, where: LearnerSettings) -> int:
    with pytest.raises(ConfigError, match="use a capacity of at least") as refused:
        DQN.learning(sized(config, 1), env, where)
    return int(re.findall(r"\d+", str(refused.value))[-1])


def insert(trajectory: Arrays, config: DQNConfig, env: EnvSpec, size: MemorySize) -> None:
    assert DQN.memory is not None
    memory = DQN.memory(config, env, size)
    memory.insert(trajectory if size.contiguous else memory.apart(trajectory))


@pytest.mark.parametrize("contiguous", [True, False], ids=["in order", "apart"])
@pytest.mark.parametrize(
    ("config", "env"),
    [
        (PLAIN, env_spec((VECTOR,))),
        (PLAIN, STACKED),
        (SEQUENCES, env_spec((VECTOR,))),
        (dataclasses.replace(SEQUENCES, burn_in=3), env_spec((VECTOR,))),
        (dataclasses.replace(SEQUENCES, rows=1, n_step=5), env_spec((VECTOR,))),
    ],
    ids=["rows", "stacked frames", "sequences", "burn-in", "short"],
)
def test_the_suggested_capacity_is_the_least_that_works(config: DQNConfig, env: EnvSpec, contiguous: bool) -> None:
    where = dataclasses.replace(settings(lanes=LANES), contiguous=contiguous)
    capacity = suggested(config, env, where)
    config = sized(config, capacity)
    learning, policy = DQN.learning(config, env, where), DQN.policy(config, env)
    for number in range(8):  # more than fit
        trajectory = collect(policy, learning.weights().copy(), env, LANES, number)
        update([learning], [trajectory], number)
    assert len(learning.replay(0)) > 0  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match=r"rows cannot hold|does not fit"):
        insert(trajectory, config, env, MemorySize(LANES, capacity // LANES - 1, contiguous))
