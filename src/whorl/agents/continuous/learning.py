"""The learning half that DDPG, TD3 and SAC share: inputs from drawn transitions, the actor, the critics, random actions
at the beginning."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from whorl.agents.continuous.acting import RANDOM
from whorl.agents.continuous.settings import ContinuousConfig
from whorl.agents.contract import AgentSpec, LearnerSettings, Step
from whorl.agents.off_policy.learning import OffPolicyLearning, Phase
from whorl.agents.off_policy.parameters import ParameterPlan
from whorl.agents.off_policy.targets import Following
from whorl.models.bounded_actor import BoundedActor
from whorl.models.critics import Critics
from whorl.models.towers import Tower
from whorl.replay.rows import Transitions
from whorl.types import Array, Arrays, EnvSpec


class ContinuousLearning(OffPolicyLearning):
    """An actor and its critics, each a tower whose gradients are written out."""

    def __init__(
        self,
        config: ContinuousConfig,
        env: EnvSpec,
        settings: LearnerSettings,
        spec: AgentSpec,
        plan: ParameterPlan,
        network: BoundedActor,
        phases: Mapping[str, Phase],
        targets: Mapping[str, Following],
    ) -> None:
        self._random_env_steps = config.random_env_steps
        super().__init__(config, env, settings, spec, plan, phases, targets)
        self.network = network
        self.actor = Tower(network.config, self.parameters.tensors, "policy")
        self.critics = Critics(network, self.parameters.tensors)
        self._inputs: dict[tuple[str, int], Array] = {}

    def publish(self, weights: Arrays) -> None:
        """Actions are uniform until there were enough of them."""
        weights[RANDOM][...] = self.progress.env_steps < self._random_env_steps

    def inputs(self, transitions: Transitions) -> tuple[Tensor, Tensor]:
        """The critics' inputs [N, features and action] for the transitions' observations, with the actions that were
        taken, and for their successors, with room for actions. Overwritten by the next call."""
        now = self._encoded("now", transitions.observation, len(transitions.reward))
        now[:, self.features :] = self.network.head.from_env(transitions.action)
        then = self._encoded("then", transitions.next_observation, len(transitions.reward))
        return self.tensor(now), self.tensor(then)

    @property
    def features(self) -> int:
        """Columns of the critics' inputs before the action."""
        return self.network.encoder.width

    def normal(self, step: Step, shard: int) -> Tensor:
        """Standard normal numbers [action size, N] for one phase of one gradient step."""
        return self.tensor(self.normals(step, shard, self.network.head.size))

    def tensor(self, array: Array) -> Tensor:
        """An array on the device; on the CPU it shares its memory."""
        return torch.from_numpy(array).to(self.device)

    def _encoded(self, which: str, observation: Arrays, rows: int) -> Array:
        buffer = self._inputs.get((which, rows))
        if buffer is None:
            width = self.features + self.network.head.size
            buffer = self._inputs[which, rows] = np.zeros((rows, width), np.float32)
        self.network.encoder.encode(self.parameters.views, observation, buffer[:, : self.features])
        return buffer
