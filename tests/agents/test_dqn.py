"""DQN against a slow implementation that shares nothing with it but the replay's indices."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from agent_batches import BOX, MULTI, collect, cut, env_spec, settings
from agent_batches import update as run_update
from numpy.testing import assert_allclose

from whorl.agents.contract import Progress, Step
from whorl.agents.dqn.config import DQNConfig
from whorl.agents.dqn.learning import DQNLearning
from whorl.agents.dqn.recurrent import RecurrentDQNLearning
from whorl.agents.off_policy.settings import ReplayConfig
from whorl.agents.registry import get_agent
from whorl.errors import ConfigError
from whorl.models.config import NetworkConfig
from whorl.ops.noise import uniform
from whorl.types import Arrays, leaves_of

ENV, LANES, ROWS, DISCOUNT = env_spec(), 8, 14, 0.9
SMALL = DQNConfig(
    rows=ROWS,
    batch_size=32,
    gradient_steps=3,
    learning_starts=0,
    discount=DISCOUNT,
    target_every=10**9,
    replay=ReplayConfig(capacity=80 * LANES),
    network=NetworkConfig(hidden=(16, 12), activation="relu"),
)
RECURRENT = dataclasses.replace(
    SMALL, burn_in=4, batch_size=6, network=NetworkConfig(hidden=(8,), core="lstm", lstm_size=5)
)


def filled(config: DQNConfig, updates: int = 3) -> tuple[DQNLearning | RecurrentDQNLearning, Arrays]:
    """A learner after some updates and one more batch, about to learn; and all rows so far, one after the other."""
    agent = get_agent("dqn")
    learning, policy = agent.learning(config, ENV, settings()), agent.policy(config, ENV)
    trajectories = []
    for number in range(updates + 1):
        trajectory = collect(policy, learning.weights().copy(), ENV, LANES, number, episode_rows=5 + number)
        trajectory["state/h"] = trajectory["state/c"] = np.full((LANES, 5), 0.1 * number, np.float32)
        if number < updates:
            run_update([learning], cut(trajectory, 1), number)
        trajectories.append(trajectory)
    learning.begin({0: trajectories[-1]}, Progress(updates, 50, 100))
    rows = {k: np.concatenate([t[k][:ROWS] for t in trajectories]) for k in trajectories[0] if "state/" not in k}
    # Each trajectory begins episodes: those that were under way are given up, and their last rows only bootstrap.
    rows["valid"][:-1] &= ~rows["first"][1:] | rows["terminated"][:-1]
    return learning, rows


def parameters(saved: Arrays, prefix: str) -> dict[str, torch.Tensor]:
    return {name: torch.tensor(array, dtype=torch.float64) for name, array in leaves_of(saved, prefix).items()}


def target_parameters(learning: DQNLearning | RecurrentDQNLearning) -> dict[str, torch.Tensor]:
    return {name: tensor.double() for name, tensor in learning.targets["q"].tensors.items()}


def q_of(p: dict[str, torch.Tensor], x: np.ndarray, dueling: bool) -> torch.Tensor:
    """[choices] of one observation."""

    def tower(name: str) -> torch.Tensor:
        y = torch.tensor(x, dtype=torch.float64)
        for i in range(2):
            y = torch.relu(y @ p[f"{name}/{i}/weight"] + p[f"{name}/{i}/bias"])
        return p[f"{name}/out/weight"] @ y + p[f"{name}/out/bias"]

    q = tower("policy")
    return q - q.mean() + tower("value") if dueling else q


def huber(error: torch.Tensor, delta: float) -> torch.Tensor:
    return torch.nn.functional.huber_loss(error, torch.zeros_like(error), reduction="none", delta=delta)


CASES = {
    "plain": {"double": False},
    "double": {"double": True},
    "dueling": {"dueling": True, "huber_delta": 0.3},
    "three steps": {"n_step": 3},
    "prioritised": {"n_step": 2, "replay": ReplayConfig(capacity=80 * LANES, prioritised=True, beta_start=0.6)},
    "everything": {
        "double": True,
        "dueling": True,
        "n_step": 4,
        "replay": ReplayConfig(capacity=80 * LANES, prioritised=True),
    },
}


@pytest.mark.parametrize("case", CASES)
def test_the_gradient_is_that_of_the_slow_implementation(case: str) -> None:
    config = dataclasses.replace(SMALL, **CASES[case])
    learning, rows = filled(config)
    step = next(learning.plan((3, 3)))
    contribution = learning.spec.contribution.views(learning.contribute(step, 0))
    batch = learning.draw(0, 0)
    online, target = parameters(learning.save(), "weights/"), target_parameters(learning)
    assert not torch.equal(online["policy/0/weight"], target["policy/0/weight"])
    online = {name: tensor.requires_grad_() for name, tensor in online.items()}
    total = torch.zeros(())
    for index, weight in zip(batch.indices, batch.weights, strict=True):
        row, lane = divmod(int(index), LANES)
        assert rows["valid"][row, lane]
        returns, factor, at = 0.0, 1.0, row
        for _ in range(config.n_step):
            returns += factor * rows["reward"][at, lane]
            factor *= DISCOUNT
            ended, terminated = rows["terminated"][at, lane] | rows["truncated"][at, lane], rows["terminated"][at, lane]
            at += 1
            if ended or not rows["valid"][at, lane]:
                factor *= not terminated
                break
        x = rows["obs/obs"][at, lane]
        with torch.no_grad():
            values = q_of(target, x, config.dueling)
            choice = (q_of(online, x, config.dueling) if config.double else values).argmax()
        error = q_of(online, rows["obs/obs"][row, lane], config.dueling)[rows["action"][row, lane]]
        error = error - (returns + factor * values[choice])
        total = total + float(weight) * huber(error, config.huber_delta)
    total.backward()
    assert contribution["sums"][0] == config.batch_size
    assert contribution["sums"][1] == pytest.approx(total.item(), rel=1e-4)
    ours = learning.parameters.named(torch.from_numpy(contribution["gradient"]))
    for name, tensor in online.items():
        if name != "epsilon":
            assert_allclose(ours[name], tensor.grad, rtol=1e-3, atol=1e-4, err_msg=name)


@pytest.mark.parametrize(
    "more",
    [
        {"double": False},
        {"n_step": 3, "dueling": True},
        {"burn_in": 0, "replay": ReplayConfig(capacity=100 * LANES, prioritised=True)},
    ],
    ids=["plain", "three steps, dueling", "prioritised, no burn-in"],
)
def test_the_recurrent_gradient_is_that_of_the_slow_implementation(more: dict) -> None:
    config = dataclasses.replace(RECURRENT, **more)
    learning, rows = filled(config)
    step = next(learning.plan((3, 3)))
    contribution = learning.spec.contribution.views(learning.contribute(step, 0))
    drawn = learning.draw(0, 0)
    online, target = parameters(learning.save(), "weights/"), target_parameters(learning)
    online = {name: tensor.requires_grad_() for name, tensor in online.items()}
    total, count, expected = torch.zeros(()), 0, []
    for index, weight in zip(drawn.indices, drawn.weights, strict=True):
        block, lane = divmod(int(index), LANES)
        begin, stop = block * ROWS, block * ROWS + config.burn_in + ROWS + config.n_step
        ours, theirs = (unrolled(p, rows, lane, block, begin, stop, config) for p in (online, target))
        errors = []
        for row in range(begin + config.burn_in, begin + config.burn_in + ROWS):
            if not rows["valid"][row, lane]:
                continue
            returns, factor, at = 0.0, 1.0, row
            for _ in range(config.n_step):
                returns += factor * rows["reward"][at, lane]
                factor *= DISCOUNT
                terminated, truncated = rows["terminated"][at, lane], rows["truncated"][at, lane]
                at += 1
                if terminated or truncated or not rows["valid"][at, lane]:
                    factor *= not terminated
                    break
            chooser = ours if config.double else theirs
            bootstrap = theirs[at - begin][chooser[at - begin].argmax()].item()
            error = ours[row - begin][rows["action"][row, lane]] - (returns + factor * bootstrap)
            total = total + float(weight) * huber(error, config.huber_delta)
            errors.append(abs(error.item()))
        count += len(errors)
        expected.append(0.9 * max(errors) + 0.1 * np.mean(errors))
    total.backward()
    assert contribution["sums"][:2] == pytest.approx([count, total.item()], rel=1e-4)
    ours = learning.parameters.named(torch.from_numpy(contribution["gradient"]))
    for name, tensor in online.items():
        if name != "epsilon":
            assert_allclose(ours[name], tensor.grad, rtol=1e-3, atol=1e-4, err_msg=name)
    if config.replay.prioritised:
        last = {int(index): priority for index, priority in zip(drawn.indices, expected, strict=True)}
        leaves = learning.save_shard(0)["state"]["priorities"]
        assert leaves[list(last)] == pytest.approx([p**0.6 for p in last.values()], rel=1e-4)


def unrolled(
    p: dict[str, torch.Tensor], rows: Arrays, lane: int, block: int, begin: int, stop: int, config: DQNConfig
) -> list[torch.Tensor]:
    """Action values of the rows of a sequence; no gradient flows into the burn-in."""
    h = c = torch.full((5,), 0.1 * block, dtype=torch.float64)
    q = []
    for row in range(begin, stop):
        if row == begin + config.burn_in:
            h, c = h.detach(), c.detach()
        if rows["first"][row, lane]:
            h = c = torch.zeros(5, dtype=torch.float64)
        x = torch.tensor(rows["obs/obs"][row, lane], dtype=torch.float64)
        x = torch.tanh(x @ p["encoder/0/weight"] + p["encoder/0/bias"])
        i, f, g, o = (x @ p["lstm/input"] + h @ p["lstm/recurrent"] + p["lstm/bias"]).chunk(4)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        values = p["policy/out/weight"] @ h + p["policy/out/bias"]
        if config.dueling:
            values = values - values.mean() + p["value/out/weight"] @ h + p["value/out/bias"]
        q.append(values)
    return q


def test_blocks_draw_and_learn_what_single_steps_would(monkeypatch: pytest.MonkeyPatch) -> None:
    config = dataclasses.replace(SMALL, gradient_steps=7, target_every=3)
    whole, _ = filled(config)
    monkeypatch.setattr("whorl.agents.off_policy.transitions.BLOCK_BYTES", 1)
    single, _ = filled(config)
    assert (whole.steps_at_once, single.steps_at_once) == (7, 1)
    for step in whole.plan((3, 3)):
        whole.apply(step, whole.contribute(step, 0))
    for step in single.plan((3, 3)):
        single.apply(step, single.contribute(step, 0))
        assert np.array_equal(single.draw(step.epoch, 0).indices, whole.draw(step.epoch, 0).indices)
    for name, array in whole.save().items():
        assert_allclose(array, single.save()[name], rtol=1e-3, atol=1e-5, err_msg=name)


def test_the_target_network_copies_or_follows() -> None:
    learning, _ = filled(dataclasses.replace(SMALL, gradient_steps=5, target_every=3), updates=0)
    flats = [learning.parameters.flat.clone()]
    for step in learning.plan((3, 0)):
        assert np.array_equal(learning.save()["target/q"], flats[(step.epoch // 3) * 3])
        learning.apply(step, learning.contribute(step, 0))
        flats.append(learning.parameters.flat.clone())
    soft, _ = filled(dataclasses.replace(SMALL, gradient_steps=1, target_every=1, target_tau=0.25), updates=0)
    before = soft.parameters.flat.clone()
    for step in soft.plan((3, 0)):
        soft.apply(step, soft.contribute(step, 0))
    assert_allclose(soft.save()["target/q"], 0.75 * before + 0.25 * soft.parameters.flat, rtol=1e-5, atol=1e-7)


def test_nothing_is_learnt_before_the_start_and_actions_are_random_until_then() -> None:
    config = dataclasses.replace(SMALL, learning_starts=100, epsilon_start=0.8, epsilon_end=0.2, epsilon_fraction=0.5)
    learning = get_agent("dqn").learning(config, ENV, settings())
    assert isinstance(learning, DQNLearning)
    policy = get_agent("dqn").policy(config, ENV)
    views = learning.spec.weights.views(learning.weights())
    trajectory = collect(policy, learning.weights().copy(), ENV, LANES)
    before = learning.parameters.flat.clone()
    for env_steps, epsilon, learns in ((99, 1.0, False), (100, 0.74, True), (500, 0.5, True), (900, 0.26, True)):
        learning.begin({0: trajectory}, Progress(0, env_steps, 2000))
        assert bool(list(learning.plan((1, env_steps)))) == learns
        learning.finish()
        assert float(views["epsilon"]) == pytest.approx(epsilon)
    assert torch.equal(before, learning.parameters.flat)
    assert config.epsilon(1999, 2000) == pytest.approx(0.2)


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_the_share_of_random_actions(epsilon: float) -> None:
    policy = get_agent("dqn").policy(SMALL, ENV)
    weights = policy.spec.weights.allocate()
    views = policy.spec.weights.views(weights)
    views["policy/out/bias"][:] = [0, 0, 1]
    views["epsilon"][...] = epsilon
    lanes = 30_000
    noise = uniform(5, "test", np.arange(lanes), 0, 1, 2)[0]
    actions = policy.act(views, {"obs": np.zeros((lanes, 5), np.float32)}, {}, np.ones(lanes, bool), noise).actions
    shares = np.bincount(actions, minlength=3) / lanes
    assert_allclose(shares, [epsilon / 3, epsilon / 3, 1 - 2 * epsilon / 3], atol=0.01)
    greedy = policy.act(views, {"obs": np.zeros((4, 5), np.float32)}, {}, np.ones(4, bool), None).actions
    assert greedy.tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize(
    ("config", "env", "said"),
    [
        (SMALL, env_spec(action=MULTI), "multi_discrete actions: use ppo, a2c"),
        (SMALL, env_spec(action=BOX), "box actions: use sac"),
        (dataclasses.replace(SMALL, batch_size=700), ENV, "batch_size = 700 is more than the replay holds"),
        (dataclasses.replace(SMALL, learning_starts=700), ENV, "learning_starts = 700 is more than the replay holds"),
    ],
    ids=["multi-discrete", "box", "batch", "start"],
)
def test_what_cannot_work_is_refused(config: DQNConfig, env: object, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        get_agent("dqn").spec(config, env)


@pytest.mark.parametrize(
    ("config", "shards", "said"),
    [
        (
            dataclasses.replace(SMALL, batch_size=31),
            2,
            "cannot be drawn evenly from 2 shards: use a multiple such as 30",
        ),
        (dataclasses.replace(SMALL, replay=ReplayConfig(capacity=100)), 1, "use a capacity of at least 128"),
        (dataclasses.replace(RECURRENT, replay=ReplayConfig(capacity=200)), 1, "use a capacity of at least 336"),
    ],
    ids=["shards", "rows", "sequences"],
)
def test_numbers_that_do_not_fit_the_lanes_are_refused(config: DQNConfig, shards: int, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        get_agent("dqn").learning(config, ENV, settings(shards))


def test_an_empty_shard_adds_nothing() -> None:
    learning = get_agent("dqn").learning(SMALL, ENV, settings())
    assert not learning.contribute(Step("td"), 0).any()
