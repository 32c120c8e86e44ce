"""The same bits: for any number of learners, and after save and load."""

import contextlib

import numpy as np
import pytest
from agent_batches import BOUNDED, BOX, PLACE, collect, cut, env_spec, settings
from agent_batches import update as run_update

from whorl.agents.a2c.config import A2CConfig
from whorl.agents.contract import Learning
from whorl.agents.ddpg.config import DDPGConfig
from whorl.agents.dqn.config import DQNConfig
from whorl.agents.impala.config import ImpalaConfig
from whorl.agents.off_policy.settings import ReplayConfig
from whorl.agents.ppo.config import PPOConfig
from whorl.agents.registry import agent_names, get_agent
from whorl.agents.sac.config import SACConfig
from whorl.agents.td3.config import TD3Config
from whorl.errors import CheckpointError, ConfigError
from whorl.models.config import NetworkConfig
from whorl.types import EnvSpec

LSTM = NetworkConfig(core="lstm", lstm_size=16)
REPLAYED = {"rows": 8, "gradient_steps": 3, "batch_size": 16, "learning_starts": 100, "target_every": 4}
BOUNDED_REPLAYED = {"rows": 8, "gradient_steps": 3, "batch_size": 16, "learning_starts": 100, "random_env_steps": 200}
CASES = {
    "ppo": ("ppo", PPOConfig(rows=16, epochs=3, minibatches=3, normalise_observations=True, normalise_rewards=True)),
    "ppo_whole": ("ppo", PPOConfig(rows=16, epochs=2, minibatches=1, anneal="linear", anneal_clip="linear")),
    "lstm": ("ppo", PPOConfig(rows=16, epochs=2, minibatches=2, network=LSTM)),
    "a2c": ("a2c", A2CConfig(rows=8, normalise_observations=True)),
    "a2c_adam": ("a2c", A2CConfig(rows=8, optimiser="adam", network=LSTM)),
    "dqn": ("dqn", DQNConfig(**REPLAYED, n_step=3, dueling=True)),
    "dqn_prioritised": ("dqn", DQNConfig(**REPLAYED, replay=ReplayConfig(400, prioritised=True))),
    "dqn_lstm": ("dqn", DQNConfig(**REPLAYED, burn_in=3, network=LSTM, replay=ReplayConfig(400, prioritised=True))),
    "ddpg": ("ddpg", DDPGConfig(**BOUNDED_REPLAYED, replay=ReplayConfig(400, prioritised=True))),
    "td3": ("td3", TD3Config(**BOUNDED_REPLAYED, n_step=2)),
    "sac": ("sac", SACConfig(**BOUNDED_REPLAYED)),
    "ppo_vtrace": ("ppo", PPOConfig(rows=16, epochs=2, minibatches=3, vtrace=True)),
    "impala": ("impala", ImpalaConfig(rows=16, minibatches=2, normalise_rewards=True)),
    "impala_lstm": ("impala", ImpalaConfig(rows=16, optimiser="rmsprop", network=LSTM)),
}
CASES |= {name: (name, get_agent(name).config()) for name in agent_names() if name not in CASES}
"""Agents of installed packages as well."""
ENV = env_spec(action=BOX)
ENVS = {"dqn": env_spec(), **dict.fromkeys(("ddpg", "td3", "sac"), env_spec(action=BOUNDED))}
"""For those that do not serve unbounded continuous actions."""
cases = pytest.mark.parametrize("case", CASES)


def fresh(case: str, shards: int = 1) -> Learning:
    name, config = CASES[case]
    return get_agent(name).learning(config, env_of(case), settings(shards))


def env_of(case: str) -> EnvSpec:
    """What an agent serves; of the agents of others the first kind of action they do."""
    name, config = CASES[case]
    for env in (ENVS.get(name, ENV), env_spec(), env_spec(action=BOUNDED), env_spec((PLACE,))):
        with contextlib.suppress(ConfigError):
            get_agent(name).spec(config, env)
            return env
    pytest.skip(f"{name} serves neither vectors nor single numbers")


def train(case: str, learners: list[Learning], shards: int, updates: range) -> None:
    name, config = CASES[case]
    policy = get_agent(name).policy(config, env_of(case))
    for number in updates:
        trajectory = collect(policy, learners[0].weights().copy(), env_of(case), 8, number)
        run_update(learners, cut(trajectory, shards), number)


def everything(learning: Learning) -> dict[str, bytes]:
    """What is the same for all learners."""
    return {name: array.tobytes() for name, array in learning.save().items()}


@cases
def test_one_learner_with_two_shards_is_two_learners_with_one(case: str) -> None:
    alone, one, other = (fresh(case, 2) for _ in range(3))
    train(case, [alone], 2, range(5))
    train(case, [one, other], 2, range(5))
    assert everything(alone) == everything(one) == everything(other)
    assert alone.weights().tobytes() == one.weights().tobytes()


@cases
def test_saved_and_loaded_goes_on_exactly(case: str) -> None:
    straight, first = fresh(case), fresh(case)
    train(case, [straight], 1, range(10))
    train(case, [first], 1, range(6))
    second = fresh(case)
    second.load(first.save())
    pieces = first.save_shard(0)
    second.load_shard(0, {piece: {k: v.copy() for k, v in arrays.items()} for piece, arrays in pieces.items()})
    train(case, [first], 1, range(6, 7))
    train(case, [second], 1, range(6, 10))
    assert everything(second) == everything(straight)
    assert second.weights().tobytes() == straight.weights().tobytes()


def test_a_foreign_state_is_refused() -> None:
    with pytest.raises(CheckpointError, match="another agent"):
        fresh("ppo").load(fresh("a2c").save())
    saved = fresh("ppo").save()
    saved["weights/policy/0/weight"] = np.zeros((5, 32), np.float32)
    with pytest.raises(CheckpointError, match=r"'weights/policy/0/weight' is \(5, 32\)"):
        fresh("ppo").load(saved)


def test_rows_that_are_not_valid_teach_nothing() -> None:
    for case in ("ppo", "lstm", "a2c", "ppo_vtrace", "impala", "impala_lstm"):
        name, config = CASES[case]
        policy = get_agent(name).policy(config, ENV)
        one, other = fresh(case), fresh(case)
        trajectory = collect(policy, one.weights().copy(), ENV, 8)
        noisy = {key: array.copy() for key, array in trajectory.items()}
        invalid = ~noisy["valid"][:-1]
        assert invalid.any()
        noisy["raw_action"][invalid] = 3
        noisy["log_prob"][invalid] = -1
        noisy["reward"][invalid] = 50
        noisy["discounted_return"][invalid] = 70
        for learning, rows in ((one, trajectory), (other, noisy)):
            run_update([learning], cut(rows, 1), 0)
        assert everything(one) == everything(other)
