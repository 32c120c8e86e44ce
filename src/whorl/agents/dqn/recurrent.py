"""The learning half of DQN with an LSTM, on whole sequences (R2D2: Kapturowski et al. 2019).

    stored state -> [ burn-in, no gradient ] -> [ learnt rows | n rows to bootstrap from ]

Both networks are brought up to date over the burn-in rows from the state that the actor stored.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from whorl.agents.contract import LearnerSettings, MemorySize, Step
from whorl.agents.dqn.acting import build_network, build_plan, spec
from whorl.agents.dqn.config import DQNConfig
from whorl.agents.dqn.memory import sequence_memory
from whorl.agents.dqn.priorities import sequence_priorities
from whorl.agents.dqn.values import TD, action_values, one_hot, phases, publish_epsilon, targets, td_gradients, wrapped
from whorl.agents.off_policy.inputs import to_inputs
from whorl.agents.off_policy.learning import ReplayLearning
from whorl.agents.off_policy.memory import stored_rows
from whorl.agents.off_policy.phases import Contributed
from whorl.models.differentiable import differentiable
from whorl.models.encoding import flat_rows
from whorl.models.torch_forward import Inputs, Parameters, forward_policy
from whorl.ops.advantages import n_step_returns
from whorl.ops.td import best_value
from whorl.replay.sequences import SequenceBatch, SequenceReplay, Sequences
from whorl.types import Arrays, EnvSpec


class RecurrentDQNLearning(ReplayLearning[Sequences]):
    """Q-learning over sequences."""

    def __init__(self, config: DQNConfig, env: EnvSpec, settings: LearnerSettings) -> None:
        self._dqn = config
        self.network = build_network(config, env)
        plan = build_plan(self.network)
        super().__init__(config, env, settings, spec(config, env), plan, phases(config, plan), targets(config, plan))
        length = stored_rows(config.rows, settings.contiguous)
        self._learnt = length if settings.contiguous else length - config.burn_in
        self._online = differentiable(self.network, self.parameters.tensors, settings.compile, settings.precision)
        self._target = differentiable(self.network, self.targets["q"].tensors, settings.compile, settings.precision)

    def make_replay(self) -> SequenceReplay:
        """Sequences of the lanes of one shard."""
        settings = self.settings
        size = MemorySize(settings.lanes // settings.shards, self.kept_rows, settings.contiguous)
        return sequence_memory(self._dqn, self.env, size)

    def phases(self) -> Sequence[str]:
        """Each gradient step is one phase."""
        return (TD,)

    def publish(self, weights: Arrays) -> None:
        """Write epsilon."""
        publish_epsilon(self._dqn, self.progress, weights)

    def gradient(self, step: Step, shard: int, batch: SequenceBatch, gradients: dict[str, Tensor]) -> Contributed:
        """Of the Huber loss of every valid learnt row."""
        del step, shard
        sequences, burn_in, learnt = batch.transitions, self._dqn.burn_in, self._learnt
        online = self._inputs(sequences, self.parameters.tensors)
        outputs = self._online.forward(online)
        count = sequences.action.shape[1]
        rows = slice(burn_in, burn_in + learnt)
        valid = np.zeros((learnt + self._dqn.n_step, count), np.bool_)
        valid[:learnt] = sequences.valid[rows]
        target = np.zeros(valid.shape, np.float32)
        target[:learnt] = self._targets(sequences, action_values(self._dqn, outputs))
        taken = one_hot(sequences.action[burn_in:], self.network.head.width)
        counted = valid.astype(np.float32)
        numbers = (taken, target.reshape(-1), (counted * batch.weights).reshape(-1), counted.reshape(-1))
        on_device = [wrapped(array, self._online.gives_numpy, self.device) for array in numbers]
        result = td_gradients(self._dqn, outputs, *on_device)
        self._online.backward(result.d_policy, result.d_value, gradients)
        errors = sequence_priorities(self._dqn.sequence_priority, result.errors.reshape(valid.shape), valid)
        return Contributed(result.sums, errors)

    def _targets(self, sequences: Sequences, q: Tensor) -> NDArray[np.float32]:
        """n-step double-Q targets of the learnt rows, [learnt, N]."""
        config, s = self._dqn, sequences
        q_target = action_values(config, self._target.outputs(self._inputs(s, self.targets["q"].tensors)))
        best = best_value(q_target, q if config.double else q_target)
        values = best.cpu().numpy().reshape(-1, s.action.shape[1])
        last = len(s.reward) - 1
        rows = slice(config.burn_in, last)
        returns = n_step_returns(
            s.reward[rows],
            values,
            s.terminated[rows],
            s.truncated[rows],
            s.valid[config.burn_in :],
            config.discount,
            config.n_step,
        )
        return returns[: self._learnt]

    def _inputs(self, sequences: Sequences, parameters: Parameters) -> Inputs:
        """The rows after the burn-in, and the state that these parameters have there."""
        burn_in = self._dqn.burn_in
        first = torch.from_numpy(sequences.first).to(self.device)
        h, c = (torch.from_numpy(sequences.state[name]).to(self.device) for name in ("h", "c"))
        if burn_in:
            warm_up = self._stream(sequences, slice(0, burn_in), first, (h, c))
            state = forward_policy(self.network, parameters, warm_up)[1]
            assert state is not None
            h, c = state
        return self._stream(sequences, slice(burn_in, None), first, (h, c))

    def _stream(self, sequences: Sequences, rows: slice, first: Tensor, state: tuple[Tensor, Tensor]) -> Inputs:
        observation = {name: flat_rows(leaf[rows]) for name, leaf in sequences.observation.items()}
        inputs = to_inputs(self.network.encoder, observation, self.device)
        return inputs._replace(first=first[rows], state=state)
