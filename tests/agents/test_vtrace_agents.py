"""IMPALA's gradient against a plain one, and what V-trace changes of PPO and A2C: nothing on fresh data."""

import numpy as np
import pytest
import torch
from agent_batches import BOX, DISCRETE, MULTI, VECTOR, collect, cut, env_spec, settings
from agent_batches import update as run_update
from torch import distributions

from whorl.agents.a2c.config import A2CConfig
from whorl.agents.contract import Progress, Step
from whorl.agents.impala.config import ImpalaConfig
from whorl.agents.impala.learning import ImpalaLearning
from whorl.agents.ppo.config import PPOConfig
from whorl.agents.registry import get_agent
from whorl.models.config import NetworkConfig
from whorl.models.torch_forward import Inputs, forward
from whorl.types import ActionSpec, Array, Arrays

LSTM = NetworkConfig(core="lstm", lstm_size=16)


def stale(name: str, config: object, action: ActionSpec, lanes: int = 8) -> tuple:
    """An agent's learner, and a trajectory that a policy some way off has acted."""
    agent, env = get_agent(name), env_spec((VECTOR,), action)
    learning = agent.learning(config, env, settings(lanes=lanes))
    weights = learning.weights().copy()
    rng = np.random.default_rng(0)
    for array in learning.spec.weights.views(weights).values():
        array += rng.normal(0, 0.1, array.shape).astype(np.float32)
    return learning, collect(agent.policy(config, env), weights, env, lanes)


def textbook_targets(t: Arrays, v: Array, ratio: Array, config: ImpalaConfig) -> tuple[Array, Array]:
    """(rho times advantage, return) by the recursion of the paper, one lane and one row after another."""
    rows, lanes = t["reward"].shape
    weighed, returns = np.zeros((rows, lanes)), np.zeros((rows, lanes))
    for b in range(lanes):
        later = 0.0  # R_{t+1} - v_{t+1}
        for k in range(rows - 1, -1, -1):
            if not t["valid"][k, b]:
                later = 0.0
                continue
            if t["terminated"][k, b] or t["truncated"][k, b] or not t["valid"][k + 1, b]:
                later = 0.0
            rho, c = min(config.rho_bar, ratio[k, b]), config.trace_lambda * min(config.c_bar, ratio[k, b])
            after = 0.0 if t["terminated"][k, b] else v[k + 1, b]
            weighed[k, b] = rho * (
                t["reward"][k, b] + config.discount * (after + config.trace_lambda * later) - v[k, b]
            )
            later = rho * (t["reward"][k, b] + config.discount * after - v[k, b]) + config.discount * c * later
            returns[k, b] = v[k, b] + later
    return weighed, returns


@pytest.mark.parametrize("network", [NetworkConfig(), LSTM], ids=["mlp", "lstm"])
@pytest.mark.parametrize("action", [DISCRETE, MULTI, BOX], ids=lambda action: action.kind)
def test_impalas_gradient_is_that_of_the_textbook(action: ActionSpec, network: NetworkConfig) -> None:
    config = ImpalaConfig(rows=12, entropy_coefficient=0.3, rho_bar=1.2, c_bar=0.9, trace_lambda=0.9, network=network)
    learning, t = stale("impala", config, action)
    assert isinstance(learning, ImpalaLearning)
    rows, lanes = t["reward"].shape
    leaves = {k: v.detach().requires_grad_() for k, v in learning._parameters.tensors.items()}
    features = torch.from_numpy(t["obs/obs"].reshape(-1, 5))
    inputs = Inputs(features, {})
    if network.core == "lstm":
        state = tuple(torch.from_numpy(t[f"state/{name}"]) for name in ("h", "c"))
        inputs = Inputs(features, {}, torch.from_numpy(t["first"]), state)
    policy, value = forward(learning.network, leaves, inputs)
    outputs = policy[:, : rows * lanes].T
    if action.kind == "box":
        mean, log_std = outputs.chunk(2, 1)
        normal = distributions.Normal(mean, log_std.exp())
        taken = torch.from_numpy(t["raw_action"].reshape(rows * lanes, -1))
        log_prob, entropy = normal.log_prob(taken).sum(1), normal.entropy().sum(1)
    else:
        taken = torch.from_numpy(t["action"].reshape(rows * lanes, -1))
        parts = [distributions.Categorical(logits=block) for block in outputs.split(action.nvec, 1)]
        log_prob = sum(part.log_prob(taken[:, i]) for i, part in enumerate(parts))
        entropy = sum(part.entropy() for part in parts)
    ratio = np.exp(log_prob.detach().double().numpy().reshape(rows, lanes) - t["log_prob"])
    assert ratio[t["valid"][:-1]].std() > 0.01
    v = value.detach().double().numpy().reshape(rows + 1, lanes)
    weighed, returns = (torch.from_numpy(part.reshape(-1)).float() for part in textbook_targets(t, v, ratio, config))
    mask = torch.from_numpy(t["valid"][:-1].reshape(-1)).float()
    loss = -(log_prob * weighed * mask).sum() - config.entropy_coefficient * (entropy * mask).sum()
    loss = loss + config.value_coefficient * ((value[: rows * lanes] - returns).square() * mask).sum()
    loss.backward()
    learning.begin({0: t}, Progress(0, 0, 100))
    assert [step.phase for step in learning.plan((3, 0))] == ["minibatch"]
    views = learning.spec.contribution.views(learning.contribute(Step("minibatch"), 0))
    got = learning._parameters.named(torch.from_numpy(views["gradient"]))
    assert views["sums"][0] == mask.sum()
    for name, leaf in leaves.items():
        torch.testing.assert_close(got[name], leaf.grad, atol=2e-4, rtol=1e-3, msg=name)


@pytest.mark.parametrize("network", [NetworkConfig(), LSTM], ids=["mlp", "lstm"])
def test_the_lanes_of_impalas_minibatches_add_up_to_the_batch(network: NetworkConfig) -> None:
    totals = []
    for minibatches in (1, 3):
        config = ImpalaConfig(rows=12, minibatches=minibatches, network=network)
        learning, t = stale("impala", config, DISCRETE)
        learning.begin({0: t}, Progress(0, 0, 100))
        steps = list(learning.plan((3, 0)))
        assert len(steps) == minibatches
        views = [
            {k: v.copy() for k, v in learning.spec.contribution.views(learning.contribute(step, 0)).items()}
            for step in steps
        ]
        totals.append({key: sum(view[key] for view in views) for key in ("gradient", "sums")})
    np.testing.assert_allclose(totals[0]["gradient"], totals[1]["gradient"], atol=1e-4)
    np.testing.assert_allclose(totals[0]["sums"], totals[1]["sums"], rtol=1e-4)


ESTIMATING = {
    "ppo": ("ppo", lambda **more: PPOConfig(rows=12, epochs=2, minibatches=2, **more)),
    "ppo_lstm": ("ppo", lambda **more: PPOConfig(rows=12, epochs=2, minibatches=2, network=LSTM, **more)),
    "a2c": ("a2c", lambda **more: A2CConfig(rows=12, optimiser="adam", gae_lambda=0.9, **more)),
}


@pytest.mark.parametrize("case", ESTIMATING)
@pytest.mark.parametrize("action", [DISCRETE, BOX], ids=lambda action: action.kind)
def test_on_fresh_data_vtrace_changes_nothing_but_the_last_bits(case: str, action: ActionSpec) -> None:
    name, make = ESTIMATING[case]
    env, agent, after = env_spec((VECTOR,), action), get_agent(name), []
    for more in ({}, {"vtrace": True}):
        learning = agent.learning(make(**more), env, settings())
        start = learning.weights().copy()
        metrics = run_update([learning], cut(collect(agent.policy(make(**more), env), start, env, 8), 1), 0)
        after.append(learning.weights().view(np.float32).copy())
    assert metrics["rho"] == pytest.approx(1, abs=1e-3)
    assert np.abs(after[0] - start.view(np.float32)).max() > 1e-4
    np.testing.assert_allclose(after[0], after[1], atol=2e-5)


@pytest.mark.parametrize("case", ESTIMATING)
def test_on_stale_data_it_does(case: str) -> None:
    name, make = ESTIMATING[case]
    after = []
    for more in ({}, {"vtrace": True}):
        learning, t = stale(name, make(**more), BOX)
        metrics = run_update([learning], cut(t, 1), 0)
        after.append(learning.weights().view(np.float32).copy())
    assert metrics["rho"] < 0.97
    assert np.abs(after[0] - after[1]).max() > 1e-4


def test_ratios_of_ppo_are_then_against_the_policy_before_the_update() -> None:
    config = PPOConfig(rows=12, minibatches=1, vtrace=True)
    learning, t = stale("ppo", config, DISCRETE)
    learning.begin({0: t}, Progress(0, 0, 100))
    learning.apply(Step("advantages"), learning.contribute(Step("advantages"), 0))
    sums = learning.spec.contribution.views(learning.contribute(Step("minibatch"), 0))["sums"]
    kl, clipped = sums[4:6]
    assert abs(kl) < 1e-3
    assert clipped == 0


def test_only_with_vtrace_may_data_be_stale() -> None:
    assert get_agent("impala").spec(ImpalaConfig(), env_spec()).staleness == "correctable"
    for name, config in (("ppo", PPOConfig), ("a2c", A2CConfig)):
        assert get_agent(name).spec(config(), env_spec()).staleness == "strict"
        assert get_agent(name).spec(config(vtrace=True), env_spec()).staleness == "correctable"
