"""Agents learn: hand-made problems in a plain loop, without engines and environments."""

import numpy as np
import pytest
from agent_batches import Reward, collect, cut, env_spec, settings
from agent_batches import update as run_update

from whorl.agents.a2c.config import A2CConfig
from whorl.agents.impala.config import ImpalaConfig
from whorl.agents.ppo.config import PPOConfig
from whorl.agents.registry import get_agent
from whorl.models.config import NetworkConfig
from whorl.types import ActionSpec, Array, Arrays, EnvSpec, ObservationLeaf

STATE = ObservationLeaf("state", "discrete", (), "int64", 0, 3, 4)
POINT = ObservationLeaf("point", "vector", (1,), "float32")


def train(
    name: str, config: object, env: EnvSpec, reward: Reward, updates: int, episode_rows: int = 5, observe=None
) -> float:
    """Mean reward per valid row over the last three updates."""
    agent = get_agent(name)
    learning, policy = agent.learning(config, env, settings(shards=2, lanes=16)), agent.policy(config, env)
    means = []
    for number in range(updates):
        rows = collect(policy, learning.weights().copy(), env, 16, number, episode_rows, reward, observe)
        means.append(rows["reward"].sum() / rows["valid"][:-1].sum())
        run_update([learning], cut(rows, 2), number, updates)
    return float(np.mean(means[-3:]))


def identity(observation: Arrays, actions: Array, place: int) -> Array:
    return (actions == observation["state"]).astype(np.float32)


@pytest.mark.parametrize(
    ("name", "config", "updates"),
    [
        ("ppo", PPOConfig(rows=24, learning_rate=3e-3, discount=0.5), 30),
        ("a2c", A2CConfig(rows=12, learning_rate=1e-2, discount=0.5, optimiser="adam"), 100),
        ("a2c", A2CConfig(rows=12, learning_rate=5e-2, discount=0.5), 150),
        ("impala", ImpalaConfig(rows=12, learning_rate=1e-2, discount=0.5, minibatches=2), 60),
    ],
    ids=["ppo", "a2c-adam", "a2c-rmsprop", "impala"],
)
def test_the_action_that_equals_the_state(name: str, config: object, updates: int) -> None:
    env = env_spec((STATE,), ActionSpec("discrete", (), "int64", (4,)))
    assert train(name, config, env, identity, updates) > 0.9


def test_both_parts_of_a_multi_discrete_action() -> None:
    def reward(observation: Arrays, actions: Array, place: int) -> Array:
        halves = np.stack([observation["state"] // 2, observation["state"] % 2], axis=1)
        return (actions == halves).mean(axis=1).astype(np.float32)

    env = env_spec((STATE,), ActionSpec("multi_discrete", (2,), "int64", (2, 2)))
    assert train("ppo", PPOConfig(rows=24, learning_rate=3e-3, discount=0.5), env, reward, 25) > 0.9


def test_a_continuous_target_in_an_uneven_range() -> None:
    def reward(observation: Arrays, actions: Array, place: int) -> Array:
        target = 10 + 5 * np.tanh(observation["point"])
        return -np.abs(actions - target).sum(axis=1).astype(np.float32) / 10

    env = env_spec((POINT,), ActionSpec("box", (1,), "float32", (), (0.0,), (20.0,)))
    config = PPOConfig(rows=24, learning_rate=5e-3, discount=0.0, normalise_observations=True, normalise_rewards=True)
    assert train("ppo", config, env, reward, 40) > -0.15


def test_an_lstm_remembers_what_a_feed_forward_network_cannot_see() -> None:
    """The state is shown on the first row of an episode only, and must be named on the last."""

    def observe(place: int, row: Arrays) -> None:
        if place > 0:
            row["state"][:] = 3
        else:
            row["state"] %= 2
            shown[:] = row["state"]

    def reward(observation: Arrays, actions: Array, place: int) -> Array:
        return 3 * (actions == shown).astype(np.float32) if place == 2 else np.zeros(16, np.float32)

    shown = np.zeros(16, np.int64)
    env = env_spec((STATE,), ActionSpec("discrete", (), "int64", (2,)))
    results = {}
    for core in ("none", "lstm"):
        network = NetworkConfig(core=core, lstm_size=16, hidden=(16,))
        config = PPOConfig(rows=32, learning_rate=1e-2, minibatches=2, epochs=4, network=network)
        results[core] = train("ppo", config, env, reward, 40, episode_rows=3, observe=observe)
    assert results["lstm"] > 0.9
    assert results["none"] < 0.65
