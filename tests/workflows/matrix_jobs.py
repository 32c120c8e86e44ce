"""Small jobs of every kind of agent, and whether a workflow takes them."""

from __future__ import annotations

from typing import Any

from whorl.errors import BadInputError
from whorl.prepare import prepare
from whorl.resolve import config_from_keywords

SMALL = {"agent.network.hidden": (16,), "run.checkpoint_every_s": 1000.0}
ON_POLICY = {"agent.rows": 8}
REPLAY = {
    "agent.rows": 8,
    "agent.learning_starts": 64,
    "agent.batch_size": 16,
    "agent.replay.capacity": 1000,
    "agent.gradient_steps": 1,
}
LSTM = {"agent.network.core": "lstm", "agent.network.lstm_size": 8}
VTRACE = {"agent.vtrace": True}
FEW_EPOCHS = {"agent.epochs": 2, "agent.minibatches": 2}

JOBS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "ppo": ("ppo", "CartPole-v1", {**ON_POLICY, **FEW_EPOCHS}),
    "lstm ppo": ("ppo", "Pendulum-v1", {**ON_POLICY, **FEW_EPOCHS, **LSTM}),
    "a2c": ("a2c", "Pendulum-v1", {**ON_POLICY, "agent.normalise_rewards": False}),
    "impala": ("impala", "CartPole-v1", {**ON_POLICY, "agent.normalise_rewards": False}),
    "lstm impala": ("impala", "CartPole-v1", {**ON_POLICY, **LSTM, "agent.normalise_rewards": False}),
    "dqn": ("dqn", "CartPole-v1", {**REPLAY, "agent.n_step": 3, "agent.replay.prioritised": True}),
    "lstm dqn": ("dqn", "CartPole-v1", {**REPLAY, **LSTM, "agent.burn_in": 2}),
    "ddpg": ("ddpg", "Pendulum-v1", {**REPLAY, "agent.replay.prioritised": True}),
    "td3": ("td3", "Pendulum-v1", REPLAY),
    "sac": ("sac", "Pendulum-v1", REPLAY),
}


def keywords(kind: str, workflow: str, *, corrected: bool = True) -> tuple[str, str, dict[str, Any]]:
    """What ``whorl.train`` takes: two actors of two environments (learners act themselves: two of them)."""
    agent, env, settings = JOBS[kind]
    if corrected and agent in ("ppo", "a2c"):
        settings = {**settings, **(VTRACE if workflow not in ("sync", "overlap", "allreduce") else {})}
    learners = {"learners": 2} if workflow == "allreduce" else {}
    flags = {"workflow": workflow, "actors": 2, "envs_per_actor": 2, "steps": 300, **learners}
    return agent, env, {**flags, "set": {**SMALL, **settings}}


def refusal(kind: str, workflow: str, *, corrected: bool = True) -> str | None:
    """Why a workflow does not take a kind of job; None if it does."""
    agent, env, settings = keywords(kind, workflow, corrected=corrected)
    try:
        prepare(config_from_keywords(agent, env, settings))
    except BadInputError as error:
        return str(error)
    return None
