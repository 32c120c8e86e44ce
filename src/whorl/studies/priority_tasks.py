"""Prioritised replay against uniform, where the only reward is far away and rare.

Behaviour is random throughout, and learning starts when the replay is filled: both sides have the same rows and differ
in nothing but what they draw of them. Gradient steps are counted until a run has learnt.

dqn    a walk along a cliff (the blind cliff walk of Schaul et al. 2016). Learnt: the root mean squared error of the
       action values, which are known, is below 0.1. (Whether the greedy action is right says little here: before any
       reward is found, noise is enough to prefer going on to falling.)
ddpg   a line with a reward at its far end. Learnt: the policy arrives there without noise, and the critic knows it: it
       expects at the start at least half of the discounted return that the policy then gets. (Arriving alone says
       little here, too: a critic that knows nothing may happen to send the policy in the right direction.)
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import whorl
from whorl.envs.registry import make_env
from whorl.models.acting import acting_forward
from whorl.runs.checkpoint import load_latest

DISCOUNT = 0.95
UPDATES_BETWEEN_LOOKS = 2
COMMON: dict[str, Any] = {
    "agent.batch_size": 32,
    "agent.discount": DISCOUNT,
    "agent.replay.capacity": 50_000,
    "agent.network.activation": "tanh",
    "run.checkpoint_every_s": 1e6,
}


@dataclass(frozen=True)
class Task:
    """One agent on its task."""

    agent: str
    env: str
    settings: dict[str, Any]
    measure: Callable[[whorl.Trainer, int], float]
    """Given the trainer and the size of the task."""
    learnt: Callable[[float], bool]
    first_seed: int
    """Of those that the study uses. DDPG's settings were found with smaller ones: none of these was looked at then."""
    axis: str


@dataclass(frozen=True)
class Curve:
    """A run: gradient steps, what was measured after them, and whether it has learnt in the end."""

    taken: list[int]
    measured: list[float]
    learnt: bool

    @property
    def gradient_steps(self) -> int:
        """In all. A run that has not learnt counts as if it had."""
        return self.taken[-1]


def value_error(trainer: whorl.Trainer, size: int) -> float:
    """DQN on the cliff: root mean squared error of the action values of every place."""
    policy, places = trainer.policy(), np.arange(size - 1)
    acting: Any = policy.acting
    forward = acting_forward(acting.network, len(places))
    values = forward(policy.weights, {"obs": places}, {}, np.ones(len(places), np.bool_)).outputs
    true = np.zeros_like(values)
    true[places, 1 - places % 2] = DISCOUNT ** (size - 2.0 - places)
    return float(np.sqrt(np.mean((values - true) ** 2)))


def known_return(trainer: whorl.Trainer, size: int) -> float:
    """DDPG on the line: the critic's value of the start over the discounted return of the policy; 0 if that is 0."""
    import torch

    from whorl.models.towers import Tower

    policy, env = trainer.policy(), make_env("whorl/Reach-v0", {"n": size})
    observation, _ = env.reset(seed=0)
    policy.reset()
    start = np.concatenate([observation, policy.act(observation)])
    returned, weight, over = 0.0, 1.0, False
    while not over:
        observation, reward, terminated, truncated, _ = env.step(policy.act(observation))
        returned, weight, over = returned + weight * float(reward), weight * DISCOUNT, terminated or truncated
    if returned == 0:
        return 0.0
    trainer.save()
    checkpoint = load_latest(trainer.path / "checkpoints")
    assert checkpoint is not None
    prefix = "agent/weights/"
    tensors = {
        name.removeprefix(prefix): torch.from_numpy(array.copy())
        for name, array in checkpoint.arrays["learner"].items()
        if name.startswith(prefix)
    }
    acting: Any = policy.acting
    critic = Tower(acting.network.config, tensors, "critic/0")
    return float(critic.forward(torch.from_numpy(start[None]))) / returned


TASKS = {
    "dqn": Task(
        agent="dqn",
        env="whorl/Cliff-v0",
        settings={
            "agent.rows": 2,
            "agent.gradient_steps": 8,
            "agent.learning_rate": 3e-4,
            "agent.target_every": 1,
            "agent.target_tau": 0.1,
            "agent.epsilon_start": 1.0,
            "agent.epsilon_end": 1.0,
            "agent.network.hidden": (32,),
        },
        measure=value_error,
        learnt=lambda error: error < 0.1,
        first_seed=1,
        axis="error of the action values",
    ),
    "ddpg": Task(
        agent="ddpg",
        env="whorl/Reach-v0",
        settings={
            "agent.rows": 4,
            "agent.gradient_steps": 64,
            "agent.policy_learning_rate": 1e-4,
            "agent.critic_learning_rate": 3e-4,
            "agent.tau": 0.05,
            "agent.random_env_steps": 100_000,
            "agent.network.hidden": (64, 64),
            "agent.replay.alpha": 0.8,
        },
        measure=known_return,
        learnt=lambda share: share >= 0.5,
        first_seed=201,
        axis="critic's value of the start / return",
    ),
}


def learn(
    agent: str, prioritised: bool, seed: int, *, size: int, filled: int, env_steps: int, gradient_steps: int
) -> Curve:
    """Train until it has learnt, or to the limit. ``size`` is that of the task, ``filled`` the environment steps in the
    replay when learning starts; ``env_steps``, of the longest run, end the annealing of beta."""
    task = TASKS[agent]
    settings = COMMON | task.settings | {"agent.replay.prioritised": prioritised, "env.kwargs.n": size}
    settings |= {"agent.learning_starts": filled}
    each = UPDATES_BETWEEN_LOOKS * settings["agent.gradient_steps"]
    with tempfile.TemporaryDirectory() as folder:
        run_dir = Path(folder) / "run"
        options: dict[str, Any] = {"steps": env_steps, "seed": seed, "engine": "inline", "envs_per_actor": 8}
        with whorl.Trainer(task.agent, task.env, run_dir=run_dir, **options, set=settings) as trainer:
            while trainer.env_steps < filled:
                trainer.step()
            taken, measured = [0], [task.measure(trainer, size)]
            while taken[-1] < gradient_steps and not task.learnt(measured[-1]):
                trainer.step(UPDATES_BETWEEN_LOOKS)
                taken.append(taken[-1] + each)
                measured.append(task.measure(trainer, size))
    return Curve(taken, measured, task.learnt(measured[-1]))


def probe(agent: str, prioritised: bool, seed: int, **sizes: int) -> dict[str, Any]:
    """As a cell of the study ``priorities``."""
    curve = learn(agent, prioritised, seed, **sizes)
    return {
        "gradient_steps": curve.gradient_steps,
        "learnt": curve.learnt,
        "taken": curve.taken,
        "measured": curve.measured,
    }
