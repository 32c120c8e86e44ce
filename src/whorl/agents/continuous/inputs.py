"""A draw as the actor and the critics take it: encoded once, for all phases of a gradient step."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from whorl.models.bounded_actor import BoundedActor
from whorl.ops.namespace import AnyArray
from whorl.replay.buffer import Batch
from whorl.types import Array, Arrays


def formula_form(tensor: Tensor) -> AnyArray:
    """A tensor as formulas on a few hundred numbers take it: on the CPU as numpy, which is quicker there."""
    return tensor.numpy() if tensor.device.type == "cpu" else tensor


def array_formula_form(array: Array, device: torch.device) -> AnyArray:
    """A numpy array as formulas take it together with what networks on this device said."""
    return array if device.type == "cpu" else torch.from_numpy(array).to(device)


def tensor_form(array: AnyArray) -> Tensor:
    """What a formula gave as networks take it."""
    return torch.from_numpy(array) if isinstance(array, np.ndarray) else array


class EncodedRows:
    """The critics' inputs for one observation of each drawn row: [N, features and then the scaled action]."""

    def __init__(self, network: BoundedActor, rows: int, device: torch.device) -> None:
        self._encoder, self._head = network.encoder, network.head
        self._host = np.zeros((rows, network.encoder.width + network.head.size), np.float32)
        self._host_features = self._host[:, : network.encoder.width]
        self._host_actions = self._host[:, network.encoder.width :]
        self.inputs = torch.from_numpy(self._host).to(device)
        """All of it. On the CPU it shares the memory that is encoded into."""
        self.features = self.inputs[:, : network.encoder.width]
        """What the actor takes."""
        self.actions: AnyArray = formula_form(self.inputs)[:, network.encoder.width :].T
        """[size, N], to be written to."""

    def encode(self, observation: Arrays, taken: Array | None = None) -> None:
        """Features of the observations and, if given, the actions as the environment took them."""
        self._encoder.encode({}, observation, self._host_features)
        if taken is not None:
            self._host_actions[:] = self._head.from_env(taken)
        if self.inputs.device.type != "cpu":
            self.inputs.copy_(torch.from_numpy(self._host))


class DrawnInputs:
    """Drawn transitions as networks and formulas take them."""

    def __init__(self, network: BoundedActor, rows: int, device: torch.device) -> None:
        self.now = EncodedRows(network, rows, device)
        """Observations with the actions that were taken."""
        self.then = EncodedRows(network, rows, device)
        """Their successors, with room for actions."""
        self.reward: AnyArray
        """[N], like all below."""
        self.discount: AnyArray
        self.weight: AnyArray
        self._device = device
        self._batch: Batch | None = None

    def hold(self, batch: Batch) -> None:
        """Become this draw; nothing is done if it is the one that is held."""
        if batch is self._batch:
            return
        transitions = batch.transitions
        self.now.encode(transitions.observation, transitions.action)
        self.then.encode(transitions.next_observation)
        drawn = (transitions.reward, transitions.discount, batch.weights)
        self.reward, self.discount, self.weight = (array_formula_form(array, self._device) for array in drawn)
        self._batch = batch
