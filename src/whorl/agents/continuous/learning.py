"""The learning half that DDPG, TD3 and SAC share: actor, critics, their inputs, random actions at the beginning."""

from __future__ import annotations

from collections.abc import Mapping

from whorl.agents.continuous.acting import RANDOM
from whorl.agents.continuous.inputs import DrawnInputs, array_formula_form
from whorl.agents.continuous.settings import ContinuousConfig
from whorl.agents.contract import AgentSpec, LearnerSettings, Step
from whorl.agents.off_policy.parameters import ParameterPlan
from whorl.agents.off_policy.phases import Phase
from whorl.agents.off_policy.targets import Following
from whorl.agents.off_policy.transitions import OffPolicyLearning
from whorl.models.bounded_actor import BoundedActor
from whorl.models.critics import Critics
from whorl.models.towers import Scratch, Tower
from whorl.ops.namespace import AnyArray
from whorl.replay.buffer import Batch
from whorl.types import Arrays, EnvSpec


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
        self.scratch = Scratch()
        self.actor = Tower(network.config, self.parameters.tensors, "policy", self.scratch)
        self.critics = Critics(network, self.parameters.tensors, self.scratch)
        self._inputs: dict[int, DrawnInputs] = {}

    def publish(self, weights: Arrays) -> None:
        """Actions are uniform until there were enough of them."""
        weights[RANDOM][...] = self.progress.env_steps < self._random_env_steps

    def inputs(self, batch: Batch, shard: int) -> DrawnInputs:
        """The shard's draw as networks take it. Later phases of a gradient step find what earlier ones wrote there."""
        drawn = self._inputs.get(shard)
        if drawn is None:
            drawn = self._inputs[shard] = DrawnInputs(self.network, self.shard_batch, self.device)
        drawn.hold(batch)
        return drawn

    def normal(self, step: Step, shard: int) -> AnyArray:
        """Standard normal numbers [action size, N] for one phase of one gradient step."""
        return array_formula_form(self.normals(step, shard, self.network.head.size), self.device)
