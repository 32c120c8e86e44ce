"""SAC against a slow implementation, and its temperature."""

import math

import numpy as np
import pytest
import torch
from agent_batches import random_observation, settings
from continuous_cases import ENV, SlowNetwork, assert_same, begun, gradients_of, slow_batch, small
from torch import Tensor
from torch.distributions import Normal, TanhTransform, TransformedDistribution

from whorl.agents.contract import Step
from whorl.agents.registry import get_agent
from whorl.errors import ConfigError
from whorl.models.config import NetworkConfig
from whorl.ops.noise import uniform


def slow_sample(network: SlowNetwork, features: Tensor, normal: Tensor) -> tuple[Tensor, Tensor]:
    """Actions and their log-probabilities by torch's own distributions."""
    mean, log_std = network.tower("policy", features).chunk(2, 1)
    inner = mean + log_std.exp() * normal
    squashed = TransformedDistribution(Normal(mean, log_std.exp()), [TanhTransform(cache_size=1)])
    action = squashed.transforms[0](inner)
    return action, squashed.log_prob(action).sum(1)


def normal_of(learning: object, step: Step) -> Tensor:
    return torch.from_numpy(learning.normal(step, 0)).T  # type: ignore[attr-defined]


def test_gradients_against_a_slow_implementation() -> None:
    learning = begun("sac", temperature=0.3)
    seen = []
    for step in learning.plan((3, 0)):
        seen.append(step.phase)
        slow, target = SlowNetwork(learning.parameters.tensors), SlowNetwork(learning.targets["critics"].tensors)
        features, action, reward, following, discount, weight = slow_batch(learning.draw(step.epoch, 0))
        log_alpha = slow.parameters["temperature/log"]
        alpha = 0.3 * log_alpha.exp()
        if step.phase == "critic":
            with torch.no_grad():
                next_action, log_prob = slow_sample(slow, following, normal_of(learning, step))
                values = torch.stack([target.q(k, following, next_action) for k in range(2)])
                y = reward + discount * (values.amin(0) - alpha * log_prob)
            loss = sum((weight * (slow.q(k, features, action) - y) ** 2).sum() for k in range(2))
            assert isinstance(loss, Tensor)
            loss.backward()
            ours, sums = gradients_of(learning, step, "critic")
            assert_same(ours, slow.gradient("critic"))
            assert sums[:2] == pytest.approx([16, loss.item()], rel=1e-4)
        else:
            new_action, log_prob = slow_sample(slow, features, normal_of(learning, step))
            least = torch.minimum(slow.q(0, features, new_action), slow.q(1, features, new_action))
            loss = (alpha.detach() * log_prob - least).sum()
            (loss + (-log_alpha * (log_prob.detach() - 2)).sum()).backward()
            ours, sums = gradients_of(learning, step, ("policy", "temperature"))
            assert_same(ours, slow.gradient("policy") | slow.gradient("temperature"))
            expected = [16, loss.item(), -log_prob.sum().item(), 16 * alpha.item()]
            assert sums[:4] == pytest.approx(expected, rel=1e-4)
        learning.apply(step, learning.contribute(step, 0).copy())
    assert seen == ["critic", "policy"] * 2


def test_the_temperature_falls_while_the_policy_is_more_random_than_asked() -> None:
    learning = begun("sac", temperature=0.5, gradient_steps=5)
    assert learning.temperature == pytest.approx(0.5)
    for step in learning.plan((3, 0)):
        learning.apply(step, learning.contribute(step, 0).copy())
    metrics = learning.finish()
    # A fresh policy has log std 0 before the squashing: an entropy well above -2.
    assert metrics["entropy"] > -2
    assert learning.temperature == pytest.approx(0.5 * math.exp(-5 * 3e-4), rel=1e-4)
    assert 0.49 < metrics["temperature"] <= 0.5


def test_a_fixed_temperature_stays() -> None:
    learning = begun("sac", temperature=0.2, automatic_temperature=False)
    for step in learning.plan((3, 0)):
        learning.apply(step, learning.contribute(step, 0).copy())
    assert learning.temperature == pytest.approx(0.2)


def test_acting_samples_the_policys_own_distribution() -> None:
    agent, config, lanes = get_agent("sac"), small("sac"), 4000
    policy, learning = agent.policy(config, ENV), agent.learning(config, ENV, settings(lanes=4))
    views = learning.spec.weights.views(learning.weights().copy())
    views["policy/out/bias"][...] = [0.5, -0.5, math.log(0.1), math.log(0.3)]
    views["policy/out/weight"][...] = 0
    noise = uniform(0, "act", np.arange(lanes), 0, 1, 2)[0]
    observation, first = random_observation(ENV, lanes), np.ones(lanes, bool)
    actions = policy.act(views, observation, {}, first, noise).actions
    inner = np.arctanh((actions - [0, 1]) / 2)
    assert inner.mean(axis=0) == pytest.approx([0.5, -0.5], abs=0.02)
    assert inner.std(axis=0) == pytest.approx([0.1, 0.3], rel=0.05)
    greedy = policy.act(views, observation, {}, first, None).actions
    np.testing.assert_allclose(
        greedy, np.broadcast_to([2 * math.tanh(0.5), 1 - 2 * math.tanh(0.5)], (lanes, 2)), rtol=1e-5
    )


def test_spaces_that_cannot_be_served_are_refused() -> None:
    agent = get_agent("sac")
    with pytest.raises(ConfigError, match="no memory"):
        agent.spec(agent.config(network=NetworkConfig(core="lstm")), ENV)
