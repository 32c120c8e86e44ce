"""DDPG and TD3 against a slow implementation, their schedules, noise and refusals."""

import numpy as np
import pytest
import torch
from agent_batches import BOUNDED, BOX, IMAGE, VECTOR, env_spec, random_observation, settings
from continuous_cases import ENV, SlowNetwork, assert_same, begun, gradients_of, slow_batch, small

from whorl.agents.continuous.settings import NoiseConfig
from whorl.agents.contract import Progress, Step
from whorl.agents.off_policy.settings import ReplayConfig
from whorl.agents.registry import get_agent
from whorl.errors import ConfigError
from whorl.models.config import NetworkConfig
from whorl.ops.noise import uniform

PRIORITISED = ReplayConfig(prioritised=True)
both = pytest.mark.parametrize("name", ["ddpg", "td3"])


@both
@pytest.mark.parametrize("replay", [ReplayConfig(), PRIORITISED], ids=["uniform", "prioritised"])
def test_gradients_against_a_slow_implementation(name: str, replay: ReplayConfig) -> None:
    learning = begun(name, replay=replay)
    critics = 2 if name == "td3" else 1
    phases = []
    for step in learning.plan((3, 0)):
        phases.append((step.phase, step.epoch))
        slow, target = SlowNetwork(learning.parameters.tensors), SlowNetwork(learning.targets["all"].tensors)
        batch = learning.draw(step.epoch, 0)
        features, action, reward, following, discount, weight = slow_batch(batch)
        if step.phase == "critic":
            with torch.no_grad():
                next_action = torch.tanh(target.tower("policy", following))
                if name == "td3":
                    normal = torch.from_numpy(learning.normal(step, 0)).T
                    next_action = (next_action + (0.2 * normal).clamp(-0.5, 0.5)).clamp(-1, 1)
                values = torch.stack([target.q(k, following, next_action) for k in range(critics)])
                y = reward + discount * values.amin(0)
            q = torch.stack([slow.q(k, features, action) for k in range(critics)])
            loss = (weight * (q - y) ** 2).sum()
            loss.backward()
            ours, sums = gradients_of(learning, step, "critic")
            assert_same(ours, slow.gradient("critic"))
            assert sums[:3] == pytest.approx([16, loss.item(), q[0].sum().item()], rel=1e-4)
        else:
            value = -slow.q(0, features, torch.tanh(slow.tower("policy", features))).sum()
            value.backward()
            ours, sums = gradients_of(learning, step, "policy")
            assert_same(ours, slow.gradient("policy"))
            assert sums[:2] == pytest.approx([16, value.item()], rel=1e-4)
        learning.apply(step, learning.contribute(step, 0).copy())
    delayed = [("critic", 0), ("critic", 1), ("policy", 1)]
    assert phases == (delayed if name == "td3" else [("critic", 0), ("policy", 0), ("critic", 1), ("policy", 1)])


@both
def test_an_update_is_adam_on_the_mean_gradient_and_targets_follow(name: str) -> None:
    learning = begun(name)
    tensors, target = learning.parameters.tensors, learning.targets["all"].tensors
    before = {key: tensor.clone() for key, tensor in tensors.items()}
    target_before = {key: tensor.clone() for key, tensor in target.items()}
    for step in learning.plan((3, 0)):
        if step == Step("critic", 1):
            break
        gradient, _ = gradients_of(learning, step, step.phase)
        learning.apply(step, learning.contribute(step, 0).copy())
        for key, g in gradient.items():
            # Adam's first step: m / (sqrt(v) + eps) with m = g and v = g^2 after its bias correction
            mean = g / 16
            expected = before[key] - 1e-3 * mean / (mean.abs() + 1e-8)
            torch.testing.assert_close(tensors[key], expected, rtol=1e-3, atol=1e-6)
    for key, start in target_before.items():
        followed = start.lerp(tensors[key], 0.005) if name == "ddpg" else start
        torch.testing.assert_close(target[key], followed)


@both
def test_priorities_are_the_absolute_errors(name: str) -> None:
    learning = begun(name, replay=PRIORITISED)
    for step in learning.plan((3, 0)):
        batch = learning.draw(step.epoch, 0)
        if step.epoch == 1:
            break
        learning.apply(step, learning.contribute(step, 0).copy())
        first = batch
    replay = learning._replays[0]
    leaves = replay._tree.leaves
    assert np.all(leaves[first.indices] != 1.0)
    untouched = np.setdiff1d(np.flatnonzero(leaves), first.indices)
    assert np.all(leaves[untouched] == 1.0)


@both
def test_actions_are_uniform_at_first_and_the_actors_afterwards(name: str) -> None:
    agent = get_agent(name)
    config = small(name, random_env_steps=50, noise=NoiseConfig("gaussian", sigma=0.0))
    learning = agent.learning(config, ENV, settings(lanes=4))
    policy, views = agent.policy(config, ENV), learning.spec.weights.views(learning.weights())
    observation, first = random_observation(ENV, 500), np.ones(500, bool)
    noise = uniform(0, "act", np.arange(500), 0, 1, learning.spec.noise_width)[0]
    random = policy.act(views, observation, {}, first, noise).actions
    np.testing.assert_allclose(random, np.array([-2.0, -1.0]) + 4 * noise, atol=1e-5)
    assert np.ptp(random, axis=0) == pytest.approx([4, 4], abs=0.1)
    greedy = policy.act(views, observation, {}, first, None).actions
    learning.progress = Progress(1, 50, 1000)
    learning.publish(views)
    np.testing.assert_array_equal(policy.act(views, observation, {}, first, noise).actions, greedy)
    assert not np.array_equal(random, greedy)


@both
def test_gaussian_noise_is_fresh_and_ou_noise_is_kept_within_an_episode(name: str) -> None:
    agent, lanes = get_agent(name), 4000
    noise = uniform(0, "act", np.arange(lanes), 0, 2, 2)
    observation, first = random_observation(ENV, lanes), np.zeros(lanes, bool)
    first[: lanes // 2] = True
    moved = {}
    for kind in ("gaussian", "ou"):
        config = small(name, noise=NoiseConfig(kind, sigma=0.1, theta=0.2))
        policy, learning = agent.policy(config, ENV), agent.learning(config, ENV, settings(lanes=4))
        views = learning.spec.weights.views(learning.weights())
        state = {field.name: np.ones((lanes, *field.shape), np.float32) for field in policy.spec.state}
        greedy = policy.act(views, observation, state, first, None)
        acted = policy.act(views, observation, state, first, noise[0])
        moved[kind] = (acted.actions - greedy.actions) / 2
        assert set(acted.state) == ({"noise"} if kind == "ou" else set())
        if kind == "ou":
            np.testing.assert_array_equal(greedy.state["noise"], state["noise"])
            kept = acted.state["noise"]
            assert kept[: lanes // 2].mean() == pytest.approx(0, abs=0.01)
            assert kept[lanes // 2 :].mean() == pytest.approx(0.8, abs=0.01)
            assert kept.std(axis=0) == pytest.approx([np.sqrt(0.16 + 0.01)] * 2, rel=0.05)
    assert moved["gaussian"].std() == pytest.approx(0.1, rel=0.05)
    assert moved["ou"][: lanes // 2].mean() == pytest.approx(0, abs=0.01)
    assert moved["ou"][lanes // 2 :].mean() > 0.6


@both
def test_one_gradient_step_for_every_env_step_unless_said_otherwise(name: str) -> None:
    learning = begun(name, gradient_steps=0, rows=3)
    assert learning.steps_each == 12


@both
def test_spaces_that_cannot_be_served_are_refused_with_what_would_work(name: str) -> None:
    agent = get_agent(name)
    with pytest.raises(
        ConfigError, match=f"{name} needs continuous actions, and test takes discrete ones: use dqn or ppo"
    ):
        agent.spec(agent.config(), env_spec())
    with pytest.raises(ConfigError, match="finite bounds, which test does not have: use ppo"):
        agent.spec(agent.config(), env_spec(action=BOX))
    with pytest.raises(ConfigError, match="no network for images"):
        agent.spec(agent.config(), env_spec((VECTOR, IMAGE), BOUNDED))
    with pytest.raises(ConfigError, match="no memory"):
        agent.spec(agent.config(network=NetworkConfig(core="lstm")), ENV)
    with pytest.raises(ConfigError, match="batch_size = 256 is more than the replay holds"):
        agent.spec(agent.config(replay=ReplayConfig(capacity=100)), ENV)


@both
def test_nothing_is_learnt_before_the_start(name: str) -> None:
    learning = begun(name, env_steps=99, learning_starts=100)
    before = learning.save()
    assert list(learning.plan((3, 0))) == []
    assert learning.finish() == {}
    after = learning.save()
    assert before.keys() == after.keys()
    for part, array in before.items():
        np.testing.assert_array_equal(after[part], array, err_msg=part)
