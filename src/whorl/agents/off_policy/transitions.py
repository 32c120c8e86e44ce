"""The learning half of agents that learn from transitions: draws of many gradient steps are gathered at once."""

from __future__ import annotations

from collections.abc import Mapping

from whorl.agents.contract import AgentSpec, LearnerSettings, MemorySize, Progress
from whorl.agents.off_policy.learning import ReplayLearning
from whorl.agents.off_policy.memory import transition_memory
from whorl.agents.off_policy.parameters import ParameterPlan
from whorl.agents.off_policy.phases import Phase
from whorl.agents.off_policy.settings import OffPolicyConfig
from whorl.agents.off_policy.targets import Following
from whorl.replay.buffer import Batch, Replay
from whorl.replay.memory import Drawn, Source
from whorl.replay.rows import Transitions
from whorl.types import Arrays, EnvSpec

BLOCK_BYTES = 16 * 1024 * 1024
"""Of draws that are gathered at once."""


class OffPolicyLearning(ReplayLearning[Transitions]):
    """Learns from transitions."""

    def __init__(
        self,
        config: OffPolicyConfig,
        env: EnvSpec,
        settings: LearnerSettings,
        spec: AgentSpec,
        plan: ParameterPlan,
        phases: Mapping[str, Phase],
        targets: Mapping[str, Following],
    ) -> None:
        super().__init__(config, env, settings, spec, plan, phases, targets)
        # Uniform draws do not depend on what is learnt from them, so that many steps' worth are gathered at once.
        observation_bytes = sum(field.size_bytes for field in env.observation_fields(""))
        each = 2 * max(observation_bytes, spec.replay_bytes // config.replay.capacity) * self.shard_batch
        self.steps_at_once = 1 if config.replay.prioritised else max(1, min(BLOCK_BYTES // each, self.steps_each))
        """Gradient steps whose draws are gathered together: a *block*."""
        self._blocks: dict[int, tuple[int, Batch]] = {}

    def make_replay(self) -> Replay:
        """A replay for the lanes of one shard."""
        settings = self.settings
        size = MemorySize(settings.lanes // settings.shards, self.kept_rows, settings.contiguous)
        return transition_memory(self._config, self.env, self.spec, size)

    def draw_from(self, sources: Mapping[int, Source[Transitions]], steps_at_once: int) -> None:
        """Draw from these and no longer from replays of one's own."""
        super().draw_from(sources, steps_at_once)
        self.steps_at_once = steps_at_once

    def begin(self, shards: Mapping[int, Arrays], progress: Progress) -> None:
        """Store this learner's shards of the batch."""
        super().begin(shards, progress)
        self._blocks = {}

    def draw_anew(self, number: int, shard: int) -> Batch:
        """From the block."""
        first, block = self.block(number, shard)
        if self.steps_at_once == 1:
            return block
        rows = slice((number - first) * self.shard_batch, (number - first + 1) * self.shard_batch)
        return Drawn(block.transitions.part(rows), block.weights[rows], block.indices[rows], block.generations[rows])

    def block(self, number: int, shard: int) -> tuple[int, Batch]:
        """The block that a gradient step's draw lies in: the number of its first step, and all its draws."""
        first = number - number % self.steps_at_once
        found = self._blocks.get(shard)
        if found is None or found[0] != first:
            uniforms = self.uniforms(shard)[first : first + self.steps_at_once].reshape(-1)
            found = self._blocks[shard] = (first, self.source(shard).draw(uniforms, self.beta))
        return found
