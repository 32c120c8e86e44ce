"""Learning halves of DDPG, TD3 and SAC filled with rows, and a slow forward to compare them with."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from agent_batches import BOUNDED, PLACE, VECTOR, collect, env_spec, settings
from torch import Tensor

from whorl.agents.contract import Progress
from whorl.agents.registry import get_agent
from whorl.models.config import NetworkConfig
from whorl.replay.buffer import Batch

ENV = env_spec((VECTOR, PLACE), BOUNDED)
NETWORK = NetworkConfig(hidden=(16, 12), activation="relu")


def small(name: str, **more: Any) -> Any:
    """A config that learns from the first row on."""
    given = {"rows": 12, "gradient_steps": 2, "batch_size": 16, "learning_starts": 0, "random_env_steps": 0, **more}
    return get_agent(name).config(network=NETWORK, **given)


def begun(name: str, env_steps: int = 100, **more: Any) -> Any:
    """A learning half with 12 rows of 4 lanes in its replay, its plan begun with the key (3, 0)."""
    agent, config = get_agent(name), small(name, **more)
    learning = agent.learning(config, ENV, settings(lanes=4))
    trajectory = collect(agent.policy(config, ENV), learning.weights().copy(), ENV, 4)
    learning.begin({0: trajectory}, Progress(0, env_steps, 1000))
    return learning


class SlowNetwork:
    """Actor and critics by plain autograd, from copies of named parameters."""

    def __init__(self, parameters: dict[str, Tensor]) -> None:
        self.parameters = {name: tensor.detach().clone().requires_grad_() for name, tensor in parameters.items()}

    def tower(self, name: str, x: Tensor) -> Tensor:
        for layer in range(2):
            x = torch.relu(x @ self.parameters[f"{name}/{layer}/weight"] + self.parameters[f"{name}/{layer}/bias"])
        return x @ self.parameters[f"{name}/out/weight"].T + self.parameters[f"{name}/out/bias"]

    def q(self, critic: int, features: Tensor, action: Tensor) -> Tensor:
        return self.tower(f"critic/{critic}", torch.cat([features, action], 1))[:, 0]

    def gradient(self, prefix: str) -> dict[str, Tensor]:
        return {n: t.grad for n, t in self.parameters.items() if n.startswith(prefix) and t.grad is not None}


def slow_features(observation: dict[str, np.ndarray]) -> Tensor:
    """The vector, then the discrete value one-hot."""
    return torch.cat([torch.tensor(observation["obs"]), torch.eye(4)[torch.tensor(observation["place"])]], 1)


def slow_batch(batch: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """features, scaled actions, rewards, next features, discounts, weights."""
    t = batch.transitions
    scaled = torch.tensor((t.action - np.array([0.0, 1.0])) / 2, dtype=torch.float32)
    numbers = (torch.tensor(x) for x in (t.reward, t.discount, batch.weights))
    reward, discount, weight = numbers
    return slow_features(t.observation), scaled, reward, slow_features(t.next_observation), discount, weight


def gradients_of(learning: Any, step: Any, prefix: str) -> tuple[dict[str, Tensor], np.ndarray]:
    """Copies of one step's gradients and of its sums."""
    views = learning.spec.contribution.views(learning.contribute(step, 0))
    named = learning.parameters.named(torch.from_numpy(views["gradient"].copy()))
    return {n: t.clone() for n, t in named.items() if n.startswith(prefix)}, views["sums"].copy()


def assert_same(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    assert set(ours) == set(theirs)
    for name in ours:
        torch.testing.assert_close(ours[name], theirs[name], rtol=1e-4, atol=1e-4, msg=lambda m, n=name: f"{n}: {m}")
