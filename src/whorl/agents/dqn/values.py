"""What both forms of DQN compute with: action values, their loss, and the gradients of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch

from whorl.agents.contract import Progress
from whorl.agents.dqn.config import DQNConfig
from whorl.agents.off_policy.parameters import ParameterPlan
from whorl.agents.off_policy.phases import Phase
from whorl.agents.off_policy.targets import Following
from whorl.models.torch_forward import Outputs
from whorl.ops.namespace import AnyArray, namespace
from whorl.ops.td import dueling, dueling_gradient, huber
from whorl.types import Array, Arrays

TD = "td"
"""The one phase of a gradient step."""


class Gradients(NamedTuple):
    """What a batch gives."""

    d_policy: AnyArray
    d_value: AnyArray
    sums: Array
    """Rows, loss, absolute error, action value."""
    errors: Array
    """[N]"""


def phases(config: DQNConfig, plan: ParameterPlan) -> Mapping[str, Phase]:
    """One phase, for all parameters."""
    metrics = ("loss", "td_error", "action_value")
    part = slice(0, plan.size)
    return {TD: Phase(part, config.learning_rate, config.adam_eps, config.max_grad_norm, metrics)}


def targets(config: DQNConfig, plan: ParameterPlan) -> Mapping[str, Following]:
    """One target network, of all parameters."""
    return {"q": Following(slice(0, plan.size), config.target_tau, config.target_every)}


def publish_epsilon(config: DQNConfig, progress: Progress, weights: Arrays) -> None:
    """Say how often actors are to explore."""
    weights["epsilon"][...] = config.epsilon(progress.env_steps, progress.total_env_steps)


def action_values(config: DQNConfig, outputs: Outputs) -> AnyArray:
    """[choices, N]"""
    return dueling(outputs.policy, outputs.value) if config.dueling else outputs.policy


def td_gradients(
    config: DQNConfig,
    outputs: Outputs,
    taken: AnyArray,
    target: AnyArray,
    weight: AnyArray,
    counted: AnyArray | None = None,
) -> Gradients:
    """Gradients of  sum(weight * huber(Q(taken) - target)).

    ``taken`` is one-hot [choices, N]; ``counted`` is 1 for the rows that count and 0 for others (None: all do).
    """
    q = (action_values(config, outputs) * taken).sum(0)
    error = q - target
    loss = huber(error, weight, config.huber_delta)
    d_q = taken * loss.gradient
    d_policy, d_value = dueling_gradient(d_q) if config.dueling else (d_q, outputs.value)
    size = abs(error)
    measured = namespace(q).stack((loss.loss, size, q))
    sums = measured.sum(1) if counted is None else measured @ counted
    rows = len(q) if counted is None else int(counted.sum())
    return Gradients(d_policy, d_value, np.array([rows, *_host(sums).tolist()]), _host(size))


def one_hot(actions: Array, choices: int) -> Array:
    """Actions [N] as columns [choices, N] float32."""
    return np.asarray(actions.reshape(-1) == np.arange(choices)[:, None], np.float32)


def wrapped(array: Array, gives_numpy: bool, device: torch.device) -> AnyArray:
    """The array in the form the network's outputs have."""
    return array if gives_numpy else torch.from_numpy(array).to(device)


def _host(array: AnyArray) -> Array:
    host: Array = array if isinstance(array, np.ndarray) else array.cpu().numpy()
    return host
