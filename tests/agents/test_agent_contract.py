"""What every registered agent must keep, those of installed packages too, for every kind of space."""

import contextlib
import dataclasses
import itertools
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from agent_batches import (
    BOUNDED,
    BOX,
    DISCRETE,
    IMAGE,
    MULTI,
    PLACE,
    VECTOR,
    collect,
    cut,
    env_spec,
    random_observation,
    settings,
)
from agent_batches import update as run_update

from whorl.agents.contract import Agent
from whorl.agents.registry import agent_names, get_agent
from whorl.errors import ConfigError
from whorl.models.config import NetworkConfig
from whorl.ops.noise import uniform
from whorl.types import EnvSpec

OWN = {"a2c", "ddpg", "dqn", "impala", "ppo", "sac", "td3"}
SPACES = {
    "vector": (env_spec((VECTOR,), DISCRETE), NetworkConfig()),
    "dict": (env_spec((VECTOR, PLACE), MULTI), NetworkConfig()),
    "box": (env_spec((VECTOR,), BOX), NetworkConfig()),
    "bounded": (env_spec((VECTOR, PLACE), BOUNDED), NetworkConfig()),
    "number": (env_spec((PLACE,), DISCRETE), NetworkConfig()),
    "image": (env_spec((IMAGE, PLACE), DISCRETE), NetworkConfig(image_features=32)),
    "lstm": (env_spec((VECTOR,), BOX), NetworkConfig(core="lstm", lstm_size=16)),
    "lstm_discrete": (env_spec((VECTOR,), DISCRETE), NetworkConfig(core="lstm", lstm_size=16)),
}


def build(name: str, space: str) -> tuple[Agent, object, EnvSpec]:
    """The agent with small settings; those it does not have are left out."""
    env, network = SPACES[space]
    agent = get_agent(name)
    wanted = {
        "rows": 12,
        "network": network,
        "normalise_observations": True,
        "normalise_rewards": True,
        "learning_starts": 0,
        "gradient_steps": 2,
        "batch_size": 16,
        "burn_in": 3,
        "n_step": 2,
    }
    known = {field.name for field in dataclasses.fields(agent.config)}
    return agent, agent.config(**{key: value for key, value in wanted.items() if key in known}), env


def served() -> Iterator[tuple[str, str]]:
    """Agents with the spaces they serve."""
    for name, space in itertools.product(agent_names(), SPACES):
        agent, config, env = build(name, space)
        with contextlib.suppress(ConfigError):
            agent.spec(config, env)
            yield name, space


every_pair = pytest.mark.parametrize(("name", "space"), list(served()))


@every_pair
def test_act_gives_what_the_spec_says(name: str, space: str) -> None:
    agent, config, env = build(name, space)
    spec, policy = agent.spec(config, env), agent.policy(config, env)
    assert spec == policy.spec
    learning = agent.learning(config, env, settings())
    assert learning.spec == spec
    assert learning.weights().dtype == np.uint8
    assert learning.weights().nbytes == spec.weights.size_bytes
    views = spec.weights.views(learning.weights())
    state = {field.name: np.zeros((5, *field.shape), field.dtype) for field in spec.state}
    for noise in (uniform(0, "act", np.arange(5), 0, 1, spec.noise_width)[0], None):
        acted = policy.act(views, random_observation(env, 5), state, np.ones(5, bool), noise)
        assert acted.actions.shape == (5, *env.action.shape)
        assert acted.actions.dtype == env.action.dtype
        assert {k: (v.shape[1:], v.dtype) for k, v in acted.fields.items()} == {
            field.name: (field.shape, np.dtype(field.dtype)) for field in spec.fields
        }
        assert {k: v.shape[1:] for k, v in acted.state.items()} == {field.name: field.shape for field in spec.state}
        if env.action.kind == "box":
            assert np.all(acted.actions >= env.action.low)
            assert np.all(acted.actions <= env.action.high)
        else:
            assert np.all(acted.actions.reshape(5, -1) < env.action.nvec)


@every_pair
def test_acting_is_pure_and_the_same_for_every_split_of_the_lanes(name: str, space: str) -> None:
    agent, config, env = build(name, space)
    learning, policy = agent.learning(config, env, settings()), agent.policy(config, env)
    spec = policy.spec
    run_update([learning], cut(collect(policy, learning.weights().copy(), env, 8), 1), 0)  # weights may begin at 0
    views = spec.weights.views(learning.weights().copy())
    for array in views.values():
        array.flags.writeable = False
    lanes = 13
    rng = np.random.default_rng(0)
    observation, first = random_observation(env, lanes), rng.random(lanes) < 0.3
    state = {f.name: rng.standard_normal((lanes, *f.shape)).astype(f.dtype) for f in spec.state}
    noise = uniform(0, "act", np.arange(lanes), 0, 1, spec.noise_width)[0]
    whole = policy.act(views, observation, state, first, noise)
    for sizes in ([13], [1] * 13, [5, 8], [2, 3, 4, 4]):
        start = 0
        for size in sizes:
            at = slice(start, start + size)
            part_state = {k: v[at] for k, v in state.items()}
            part = policy.act(views, {k: v[at] for k, v in observation.items()}, part_state, first[at], noise[at])
            np.testing.assert_array_equal(part.actions, whole.actions[at])
            for ours, all_lanes in ((part.fields, whole.fields), (part.state, whole.state)):
                for key, array in ours.items():
                    np.testing.assert_array_equal(array, all_lanes[key][at])
            start += size


@every_pair
def test_an_update_changes_the_weights_and_reports_finite_numbers(name: str, space: str) -> None:
    agent, config, env = build(name, space)
    learning, policy = agent.learning(config, env, settings()), agent.policy(config, env)
    before = learning.weights().copy()
    for number in range(3):  # a replay of sequences has none before the second
        trajectory = collect(policy, before, env, 8)
        for array in trajectory.values():
            array.flags.writeable = False
        metrics = run_update([learning], cut(trajectory, 1), number)
    assert not np.array_equal(before, learning.weights())
    if name in OWN:  # a habit of ours; the contract leaves the metrics to the agent
        assert any(metric.endswith("loss") for metric in metrics)
        assert any(metric.endswith("gradient_norm") for metric in metrics)
    assert all(np.isfinite(value) for value in metrics.values())
    for field, array in policy.spec.weights.views(learning.weights()).items():
        assert np.all(np.isfinite(array)), field
    assert any(saved.startswith("weights/") for saved in learning.save())  # else weights_sha256 is the hash of nothing


def test_listing_configuring_and_acting_import_no_torch() -> None:
    program = """
import sys
from whorl.agents.registry import agent_names, get_agent
from whorl.errors import ConfigError
from whorl.types import ActionSpec, EnvSpec, ObservationLeaf
env = EnvSpec("x", (ObservationLeaf("obs", "vector", (4,), "float32"),), ActionSpec("discrete", (), "int64", (2,)),
              "replay", False, 9)
for name in agent_names():
    agent = get_agent(name)
    try:
        policy = agent.policy(agent.config(), env)
    except ConfigError:  # actions it does not serve
        continue
    weights = policy.spec.weights.views(policy.spec.weights.allocate())
    import numpy as np
    noise = np.full((3, policy.spec.noise_width), 0.5, np.float32)
    policy.act(weights, {"obs": np.zeros((3, 4), np.float32)}, {}, np.ones(3, bool), noise)
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
