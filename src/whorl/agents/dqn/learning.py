"""The learning half of DQN on transitions: MLP and CNN."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from whorl.agents.contract import LearnerSettings, Progress, Step
from whorl.agents.dqn.acting import build_network, build_plan, spec
from whorl.agents.dqn.config import DQNConfig
from whorl.agents.dqn.values import TD, action_values, one_hot, phases, publish_epsilon, targets, td_gradients, wrapped
from whorl.agents.off_policy.inputs import part_of, to_inputs
from whorl.agents.off_policy.phases import Contributed
from whorl.agents.off_policy.transitions import OffPolicyLearning
from whorl.models.differentiable import differentiable
from whorl.models.torch_forward import Inputs
from whorl.ops.namespace import AnyArray, namespace
from whorl.ops.td import best_value, td_target
from whorl.replay.buffer import Batch
from whorl.types import Arrays, EnvSpec

_TARGET_ROWS = 1024
"""Rows of one forward of the target network: enough to be quick, and few enough for the cache."""


@dataclass
class _Block:
    """Several gradient steps' draws as the network takes them."""

    first: int
    """Number of its first gradient step."""
    inputs: Inputs
    next_inputs: Inputs
    taken: AnyArray
    """[steps, choices, rows of a step]"""
    reward: AnyArray
    """[steps, rows of a step], like all below."""
    discount: AnyArray
    weight: AnyArray
    known: range
    """Gradient steps for which the target network's part is computed: until it moves."""
    q_next: list[AnyArray]
    """Its values [choices, rows of a step] of the next observations of each of them."""


class DQNLearning(OffPolicyLearning):
    """Q-learning with a target network."""

    def __init__(self, config: DQNConfig, env: EnvSpec, settings: LearnerSettings) -> None:
        self._dqn = config
        self.network = build_network(config, env)
        plan = build_plan(self.network)
        super().__init__(config, env, settings, spec(config, env), plan, phases(config, plan), targets(config, plan))
        self._online = differentiable(self.network, self.parameters.tensors, settings.compile, settings.precision)
        self._target = differentiable(self.network, self.targets["q"].tensors, settings.compile, settings.precision)
        self._prepared: dict[int, _Block] = {}

    def phases(self) -> Sequence[str]:
        """Each gradient step is one phase."""
        return (TD,)

    def publish(self, weights: Arrays) -> None:
        """Write epsilon."""
        publish_epsilon(self._dqn, self.progress, weights)

    def begin(self, shards: Mapping[int, Arrays], progress: Progress) -> None:
        """Store this learner's shards of the batch."""
        super().begin(shards, progress)
        self._prepared = {}

    def gradient(self, step: Step, shard: int, batch: Batch, gradients: dict[str, Tensor]) -> Contributed:
        """Of the Huber loss of  Q(s, a) - (r + g^m Q'(s', a')),  with a' chosen by the online network if ``double``."""
        del batch  # a part of the block
        block = self._block(step.epoch, shard)
        at = step.epoch - block.first
        rows = slice(at * self.shard_batch, (at + 1) * self.shard_batch)
        q_next = selector = block.q_next[step.epoch - block.known.start]
        if self._dqn.double:
            selector = action_values(self._dqn, self._online.outputs(part_of(block.next_inputs, rows)))
        target = td_target(block.reward[at], block.discount[at], best_value(q_next, selector))
        outputs = self._online.forward(part_of(block.inputs, rows))
        result = td_gradients(self._dqn, outputs, block.taken[at], target, block.weight[at])
        self._online.backward(result.d_policy, result.d_value, gradients)
        return Contributed(result.sums, result.errors)

    def _block(self, number: int, shard: int) -> _Block:
        found = self._prepared.get(shard)
        first = number - number % self.steps_at_once
        if found is None or found.first != first:
            found = self._prepared[shard] = self._prepare(*self.block(number, shard))
        if number not in found.known:
            self._value_next(found, number)
        return found

    def _prepare(self, first: int, drawn: Batch) -> _Block:
        t, encoder = drawn.transitions, self.network.encoder
        taken = one_hot(t.action, self.network.head.width)
        steps = np.ascontiguousarray(taken.reshape(len(taken), -1, self.shard_batch).swapaxes(0, 1))
        by_step = (steps, *(part.reshape(-1, self.shard_batch) for part in (t.reward, t.discount, drawn.weights)))
        columns, reward, discount, weight = (wrapped(a, self._online.gives_numpy, self.device) for a in by_step)
        inputs, next_inputs = (to_inputs(encoder, o, self.device) for o in (t.observation, t.next_observation))
        return _Block(first, inputs, next_inputs, columns, reward, discount, weight, range(0), [])

    def _value_next(self, block: _Block, number: int) -> None:
        """The target network's values for every step of the block, as far as it stays as it is."""
        still = self._dqn.target_every - self.gradient_steps % self._dqn.target_every
        block.known = range(number, min(block.first + len(block.reward), number + still))
        begin, end = ((at - block.first) * self.shard_batch for at in (block.known.start, block.known.stop))
        parts = [slice(at, min(at + _TARGET_ROWS, end)) for at in range(begin, end, _TARGET_ROWS)]
        values = [action_values(self._dqn, self._target.outputs(part_of(block.next_inputs, part))) for part in parts]
        whole = namespace(values[0]).concatenate(values, 1)
        block.q_next = [whole[:, at : at + self.shard_batch] for at in range(0, whole.shape[1], self.shard_batch)]
