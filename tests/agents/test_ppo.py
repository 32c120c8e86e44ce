"""PPO: its gradient, its plan, its normalisers, and how it is stopped."""

import math

import numpy as np
import pytest
import torch
from agent_batches import BOX, DISCRETE, IMAGE, MULTI, collect, cut, env_spec, settings, summed
from agent_batches import update as run_update
from torch import distributions

from whorl.agents.contract import Progress, Step
from whorl.agents.ppo.config import PPOConfig
from whorl.agents.ppo.learning import PPOLearning
from whorl.agents.registry import get_agent
from whorl.errors import WhorlError
from whorl.models.config import NetworkConfig
from whorl.models.torch_forward import Inputs, forward
from whorl.types import ActionSpec, Arrays

LSTM = NetworkConfig(core="lstm", lstm_size=16)


def build(action: ActionSpec = DISCRETE, lanes: int = 8, **changes: object) -> tuple[PPOLearning, Arrays]:
    config, env = PPOConfig(rows=12, **changes), env_spec(action=action)
    learning = PPOLearning(config, env, settings(lanes=lanes))
    policy = get_agent("ppo").policy(config, env)
    return learning, collect(policy, learning.weights().copy(), env, lanes)


def begun(learning: PPOLearning, trajectory: Arrays) -> None:
    """Run an update up to its first minibatch."""
    learning.begin({0: trajectory}, Progress(0, 0, 100))
    for step in learning.plan((3, 0)):
        if step.phase == "minibatch":
            return
        learning.apply(step, learning.contribute(step, 0))


def textbook_loss(learning: PPOLearning, trajectory: Arrays, config: PPOConfig, action: ActionSpec) -> torch.Tensor:
    """Forward by autograd, distributions by torch, advantages by a plain loop, means over valid rows."""
    rows, lanes = trajectory["reward"].shape
    leaves = {k: v.detach().requires_grad_() for k, v in learning._parameters.tensors.items()}
    learning_leaves.clear()
    learning_leaves.update(leaves)
    features = torch.from_numpy(trajectory["obs/obs"].reshape(-1, 5))
    inputs = Inputs(features, {})
    if learning.network.recurrent:
        state = tuple(torch.from_numpy(trajectory[f"state/{name}"]) for name in ("h", "c"))
        inputs = Inputs(features, {}, torch.from_numpy(trajectory["first"]), state)
    policy, value = forward(learning.network, leaves, inputs)
    v = value.detach().double().numpy().reshape(rows + 1, lanes)
    t, valid = trajectory, trajectory["valid"]
    advantages = np.zeros((rows, lanes))
    for b in range(lanes):
        running = 0.0
        for k in range(rows - 1, -1, -1):
            over = t["terminated"][k, b] or t["truncated"][k, b] or not valid[k + 1, b]
            target = t["reward"][k, b] + config.discount * v[k + 1, b] * (not t["terminated"][k, b])
            running = target - v[k, b] + (0 if over else config.discount * config.gae_lambda * running)
            running = running if valid[k, b] else 0.0
            advantages[k, b] = running
    mask = torch.from_numpy(valid[:-1].reshape(-1))
    returns = torch.from_numpy((advantages + v[:-1]).reshape(-1)).float()[mask]
    a = torch.from_numpy(advantages.reshape(-1)).float()[mask]
    a = (a - a.mean()) / a.std(unbiased=False)
    learnt = rows * lanes
    outputs, value = policy[:, :learnt].T[mask], value[:learnt][mask]
    if action.kind == "box":
        taken = torch.from_numpy(t["raw_action"].reshape(learnt, -1))[mask]
        mean, log_std = outputs.chunk(2, 1)
        normal = distributions.Normal(mean, log_std.exp())
        log_prob, entropy = normal.log_prob(taken).sum(1), normal.entropy().sum(1)
    else:
        taken = torch.from_numpy(t["action"].reshape(learnt, -1))[mask]
        parts = [distributions.Categorical(logits=block) for block in outputs.split(action.nvec, 1)]
        log_prob = sum(part.log_prob(taken[:, i]) for i, part in enumerate(parts))
        entropy = sum(part.entropy() for part in parts)
    ratio = (log_prob - torch.from_numpy(t["log_prob"].reshape(-1))[mask]).exp()
    surrogate = torch.min(ratio * a, ratio.clamp(1 - config.clip, 1 + config.clip) * a).mean()
    value_loss = (value - returns).square().mean()
    return -surrogate + config.value_coefficient * value_loss - config.entropy_coefficient * entropy.mean()


learning_leaves: dict[str, torch.Tensor] = {}


@pytest.mark.parametrize("network", [NetworkConfig(), LSTM], ids=["mlp", "lstm"])
@pytest.mark.parametrize("action", [DISCRETE, MULTI, BOX], ids=lambda action: action.kind)
def test_the_gradient_is_that_of_the_textbook(action: ActionSpec, network: NetworkConfig) -> None:
    changes = {"minibatches": 1, "entropy_coefficient": 0.3, "network": network}
    learning, trajectory = build(action, **changes)
    rng = np.random.default_rng(0)
    # Ratios away from 1, so that some rows are clipped.
    trajectory["log_prob"] += rng.normal(0, 0.3, trajectory["log_prob"].shape).astype(np.float32)
    begun(learning, trajectory)
    views = learning.spec.contribution.views(learning.contribute(Step("minibatch"), 0))
    textbook_loss(learning, trajectory, PPOConfig(rows=12, **changes), action).backward()
    expected = {name: leaf.grad for name, leaf in learning_leaves.items()}
    got = learning._parameters.named(torch.from_numpy(views["gradient"] / np.float32(views["sums"][0])))
    assert views["sums"][0] == trajectory["valid"][:-1].sum()
    for name, gradient in expected.items():
        torch.testing.assert_close(got[name], gradient, atol=2e-5, rtol=1e-3, msg=name)


def test_the_plan_and_its_minibatches_cover_every_row_once() -> None:
    learning, trajectory = build(epochs=2, minibatches=5)
    begun(learning, trajectory)
    shard, weights = learning.shards[0], []
    for index in range(5):
        batch = shard.minibatch((3, 0, 0), 0, index, 5, True)
        weights.append(batch.weight.sum())
        assert len(batch.weight) in (19, 20)
    assert sum(weights) == trajectory["valid"][:-1].sum()
    learning.begin({0: trajectory}, Progress(0, 0, 100))
    phases = [(step.phase, step.epoch, step.minibatch) for step in learning.plan((3, 0))]
    assert phases == [("advantages", 0, 0), *(("minibatch", e, m) for e in range(2) for m in range(5))]


def test_shuffles_follow_from_update_epoch_and_shard() -> None:
    learning, trajectory = build()
    begun(learning, trajectory)
    shard = learning.shards[0]

    def draw(key: tuple[int, ...], epoch: int) -> bytes:
        shard._shuffle = (-1, np.zeros(0, np.int64))
        return bytes(shard.minibatch(key, epoch, 0, 4, True).returns.tobytes())

    assert draw((3, 0, 0), 0) == draw((3, 0, 0), 0)
    assert len({draw((3, 0, 0), 0), draw((3, 1, 0), 0), draw((3, 0, 1), 0), draw((3, 0, 0), 1)}) == 4


def test_a_target_kl_ends_the_update_early() -> None:
    learning, trajectory = build(epochs=10, minibatches=1, learning_rate=0.05, target_kl=0.01)
    learning.begin({0: trajectory}, Progress(0, 0, 100))
    steps = 0
    for step in learning.plan((3, 0)):
        before = learning.weights().copy()
        learning.apply(step, learning.contribute(step, 0))
        steps += step.phase == "minibatch"
    assert 1 < steps < 10
    # The step that went too far was not taken.
    assert np.array_equal(before, learning.weights())
    assert learning.finish()["kl"] > 0.001


def test_a_batch_without_valid_rows_changes_nothing() -> None:
    learning, trajectory = build(normalise_observations=True)
    trajectory["valid"] = np.zeros_like(trajectory["valid"])
    before = learning.save()
    metrics = run_update([learning], cut(trajectory, 1), 0)
    after = learning.save()
    assert {k: v.tobytes() for k, v in before.items()} == {k: v.tobytes() for k, v in after.items()}
    assert metrics["learning_rate"] == 3e-4


def test_a_gradient_that_is_not_finite_stops_the_run_with_weights_untouched() -> None:
    learning, trajectory = build()
    begun(learning, trajectory)
    total = learning.contribute(Step("minibatch"), 0).copy()
    learning.spec.contribution.views(total)["gradient"][7] = math.nan
    before = learning.weights().copy()
    with pytest.raises(WhorlError, match="not finite"):
        learning.apply(Step("minibatch"), total)
    assert np.array_equal(before, learning.weights())


def test_statistics_reach_actors_only_at_the_end_of_the_update() -> None:
    learning, trajectory = build(normalise_observations=True)
    learning.begin({0: trajectory}, Progress(0, 0, 100))
    for step in learning.plan((3, 0)):
        learning.apply(step, learning.contribute(step, 0))
        assert not learning.spec.weights.views(learning.weights())["norm/obs/mean"].any()
    learning.finish()
    views = learning.spec.weights.views(learning.weights())
    rows = trajectory["obs/obs"][:-1][trajectory["valid"][:-1]].astype(np.float64)
    np.testing.assert_allclose(views["norm/obs/mean"], rows.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(views["norm/obs/scale"], 1 / rows.std(axis=0), rtol=1e-5)


def test_moments_of_several_updates_are_those_of_all_rows_together() -> None:
    learning, _ = build(normalise_observations=True, epochs=1)
    policy, env = get_agent("ppo").policy(PPOConfig(rows=12, normalise_observations=True), env_spec()), env_spec()
    seen = []
    for number in range(3):
        trajectory = collect(policy, learning.weights().copy(), env, 8, number)
        seen.append(trajectory["obs/obs"][:-1][trajectory["valid"][:-1]])
        run_update([learning], cut(trajectory, 1), number)
    rows = np.concatenate(seen).astype(np.float64)
    saved = learning.save()
    np.testing.assert_allclose(saved["normaliser/mean"][:-1], rows.mean(axis=0), atol=1e-9)
    np.testing.assert_allclose(saved["normaliser/square"][:-1] / saved["normaliser/count"], rows.var(axis=0), rtol=1e-9)


def test_reward_scaling_uses_the_updated_deviation_of_the_return() -> None:
    learning, trajectory = build(normalise_rewards=True)
    begun(learning, trajectory)
    returns = trajectory["discounted_return"][trajectory["valid"][:-1]].astype(np.float64)
    assert learning.normaliser.reward_scale == pytest.approx(1 / returns.std(), rel=1e-5)


def test_annealing_reads_progress() -> None:
    learning, trajectory = build(anneal="linear", anneal_clip="linear")
    learning.begin({0: trajectory}, Progress(5, 25, 100))
    assert learning._learning_rate == pytest.approx(3e-4 * 0.75)
    assert learning._clip == pytest.approx(0.15)


def test_shards_of_different_sizes_weigh_by_their_valid_rows() -> None:
    learning, trajectory = build(minibatches=1)
    whole = PPOLearning(PPOConfig(rows=12, minibatches=1), env_spec(), settings())
    begun(learning, trajectory)
    whole_total = learning.contribute(Step("minibatch"), 0).copy()
    part = {k: v[:, :3] if k != "version" else v for k, v in trajectory.items()}
    rest = {k: v[:, 3:] if k != "version" else v for k, v in trajectory.items()}
    whole.begin({0: part, 1: rest}, Progress(0, 0, 100))
    for step in whole.plan((3, 0)):
        total = summed(whole.spec.contribution, [whole.contribute(step, shard) for shard in (0, 1)])
        if step.phase == "minibatch":
            break
        whole.apply(step, total)
    one, other = (learning.spec.contribution.views(buffer) for buffer in (whole_total, total))
    np.testing.assert_allclose(one["gradient"], other["gradient"], atol=1e-4)
    np.testing.assert_allclose(one["sums"], other["sums"], rtol=1e-4, atol=1e-4)


@pytest.mark.verify
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, at its own import
def test_compiled_learning_agrees_with_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch._inductor.config.compile_threads", 1)  # else its pools outlive the test
    env, network = env_spec((IMAGE,)), NetworkConfig(image_features=32)
    config = PPOConfig(rows=4, epochs=1, minibatches=1, network=network)
    results = []
    for compiled in (False, True):
        learning = PPOLearning(config, env, settings(compile=compiled))
        trajectory = collect(get_agent("ppo").policy(config, env), learning.weights().copy(), env, 8)
        run_update([learning], cut(trajectory, 1), 0)
        results.append(learning.save()["weights/policy/out/weight"])
    np.testing.assert_allclose(*results, atol=1e-4)
