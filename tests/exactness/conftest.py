"""Jobs small enough to be run again and again, and the hash of the weights they end with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import whorl

SMALL = {
    "agent.rows": 32,
    "agent.network.hidden": (16, 16),
    "resources.shards": 1,
    "run.checkpoint_every_s": 0.0,
}
REPLAY = {
    "agent.gradient_steps": 2,
    "agent.batch_size": 32,
    "agent.learning_starts": 600,
    "agent.replay.capacity": 1200,
}
"""Learning begins late, and the replay is overwritten soon."""
WARM_UP = {"agent.random_env_steps": 300}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "ppo": ("ppo", {"agent.epochs": 2, "agent.minibatches": 2}),
    "lstm ppo": (
        "ppo",
        {"agent.epochs": 2, "agent.minibatches": 2, "agent.network.core": "lstm", "agent.network.lstm_size": 16},
    ),
    "a2c": ("a2c", {}),
    "dqn": ("dqn", {**REPLAY, "agent.n_step": 3, "agent.replay.prioritised": True}),
    "lstm dqn": (
        "dqn",
        {
            **REPLAY,
            "agent.batch_size": 8,
            "agent.burn_in": 4,
            "agent.network.core": "lstm",
            "agent.network.lstm_size": 16,
        },
    ),
    "ddpg": ("ddpg", {**REPLAY, **WARM_UP, "agent.replay.prioritised": True}),
    "td3": ("td3", {**REPLAY, **WARM_UP, "agent.n_step": 2}),
    "sac": ("sac", {**REPLAY, **WARM_UP}),
    "impala": ("impala", {"agent.minibatches": 2}),
}
ENVS = ("CartPole-v1", "Pendulum-v1", "LunarLander-v3")
CONTINUOUS = ("Pendulum-v1",)
DISCRETE_ONLY, CONTINUOUS_ONLY = ("dqn",), ("ddpg", "td3", "sac")
EVERYTHING = [
    (kind, env)
    for kind, (agent, _) in KINDS.items()
    for env in ENVS
    if agent not in (DISCRETE_ONLY if env in CONTINUOUS else CONTINUOUS_ONLY)
]
"""Every kind of job on every environment that it serves."""

Hasher = Callable[..., str]


def settings(kind: str, **more: Any) -> tuple[str, dict[str, Any]]:
    """The agent's name, and keywords for ``whorl.train``: 8 environments unless said otherwise."""
    agent, own = KINDS[kind]
    changed = {key: value for key, value in more.items() if "." in key}
    flags = {"actors": 1, "envs_per_actor": 8, "engine": "inline", "seed": 7, **more}
    flags = {key: value for key, value in flags.items() if "." not in key}
    return agent, {**flags, "set": {**SMALL, **own, **changed}}


@pytest.fixture
def final_hash(tmp_path: Path) -> Hasher:
    """Trains a small job and returns its ``weights_sha256``."""
    numbers = iter(range(1000))

    def train(kind: str, env: str, **more: Any) -> str:
        agent, keywords = settings(kind, **more)
        run = whorl.train(agent, env, run_dir=tmp_path / f"run-{next(numbers)}", **keywords)
        assert run.result.exact
        assert run.status == "completed"
        transitions = run.result.transitions
        assert transitions.balanced
        assert transitions.used == run.result.env_steps >= keywords["steps"]
        assert transitions.in_flight >= 0
        return run.result.weights_sha256

    return train
