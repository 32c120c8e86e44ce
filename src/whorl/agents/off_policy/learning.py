"""The learning half of agents with a replay. What differs is the phases of a gradient step and their gradients.

    begin        every shard's new rows go into that shard's replay
    contribute   draws a part of the batch from the shard's replay; the gradient of one phase, as sums over it
    apply        divides by the number of rows, clips, steps that phase's part of the parameters
    in between   after each gradient step the target networks follow

Draws follow from (seed, update, shard, gradient step), so that they are the same for any number of learners.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Generic

import numpy as np
import torch
from torch import Tensor

from whorl.agents.actor_critic.computing import computing
from whorl.agents.actor_critic.contribution import Contribution, Totals
from whorl.agents.actor_critic.learning import check_same_layout
from whorl.agents.actor_critic.optimiser import Adam
from whorl.agents.contract import AgentSpec, LearnerSettings, Progress, Step
from whorl.agents.off_policy.memory import check_draws
from whorl.agents.off_policy.numbers import Numbers
from whorl.agents.off_policy.parameters import ParameterPlan
from whorl.agents.off_policy.phases import Contributed, Measured, Phase
from whorl.agents.off_policy.settings import OffPolicyConfig
from whorl.agents.off_policy.targets import Following, TargetNetwork
from whorl.errors import WhorlError
from whorl.models.flat import FlatParameters
from whorl.replay.memory import Drawn, Item, Memory, Source
from whorl.types import Array, Arrays, EnvSpec, leaves_of

_DRAWING, _NOISE = 0, 1
"""Purposes of keys: positions in the replay, and the agent's own noise (of the first phase; others follow)."""


class ReplayLearning(ABC, Generic[Item]):
    """Holds parameters, target networks, optimisers (every learner holds the same) and the replays of its shards."""

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
        torch.set_num_threads(settings.threads)
        self.spec = spec
        self.env = env
        self.settings = settings
        self.device = torch.device(settings.device)
        self.parameters = FlatParameters(plan, settings.seed, self.device)
        self.targets = {name: TargetNetwork(self.parameters, following) for name, following in targets.items()}
        self.gradient_steps = 0
        """Taken so far."""
        self.progress = Progress(0, 0, 1)
        self._config = config
        self._phases = phases
        self._optimisers = {
            name: Adam(self.parameters.flat[phase.part], phase.adam_eps) for name, phase in phases.items()
        }
        assert spec.draws is not None
        check_draws(spec.draws, lanes=settings.lanes, shards=settings.shards, contiguous=settings.contiguous)
        self.shard_batch = config.batch_size // settings.shards
        """Of the rows of every gradient step, those that each shard draws."""
        self.kept_rows = config.replay.capacity // settings.lanes
        """Of each lane."""
        self.steps_each = config.gradient_steps or config.rows * settings.lanes
        """Gradient steps of each update."""
        self._totals = Totals(spec.contribution, self.device)
        self._contributions: dict[int, Contribution] = {}
        self._replays: dict[int, Memory[Item]] = {}
        self._sources: dict[int, Source[Item]] = {}
        """What is drawn from in the place of own replays."""
        self._uniforms = Numbers(_DRAWING, (self.steps_each, self.shard_batch))
        self._normals: dict[tuple[str, int], Numbers] = {}
        self._drawn: dict[int, tuple[int, Drawn[Item]]] = {}
        self._key: tuple[int, ...] = ()
        self._measured: dict[str, Measured] = {}
        self.publish(self.parameters.views)

    @abstractmethod
    def phases(self) -> Sequence[str]:
        """The phases of the next gradient step, in order (``self.gradient_steps`` were taken so far)."""

    @abstractmethod
    def gradient(self, step: Step, shard: int, batch: Drawn[Item], gradients: dict[str, Tensor]) -> Contributed:
        """Overwrite the ``gradients`` of the phase's own part with those of the loss, summed over the batch (others
        are not looked at). Called without autograd."""

    def publish(self, weights: Arrays) -> None:
        """Write what the weights hold besides parameters: after each update, and when this object is made (so that
        what it reads must be set before ``super().__init__``)."""
        del weights

    @abstractmethod
    def make_replay(self) -> Memory[Item]:
        """A replay for the lanes of one shard."""

    @property
    def learning_started(self) -> bool:
        """Whether there has been enough experience to learn from."""
        return self.progress.env_steps >= self._config.learning_starts

    def normals(self, step: Step, shard: int, size: int) -> Array:
        """Standard normal numbers [size, rows of the shard's batch] for one phase of a gradient step."""
        numbers = self._normals.get((step.phase, size))
        if numbers is None:
            purpose, shape = _NOISE + list(self._phases).index(step.phase), (self.steps_each, size, self.shard_batch)
            numbers = self._normals[step.phase, size] = Numbers(purpose, shape, normal=True)
        drawn: Array = numbers.of(self._key, shard)[step.epoch]
        return drawn

    def weights(self) -> Array:
        """The flat buffer of ``spec.weights``, current."""
        return self.parameters.weights()

    def begin(self, shards: Mapping[int, Arrays], progress: Progress) -> None:
        """Store this learner's shards of the batch."""
        self.progress = progress
        for shard, trajectory in shards.items():
            replay = self.replay(shard)
            replay.insert(trajectory if self.settings.contiguous else replay.apart(trajectory))
        self._drawn = {}
        self._measured = {}

    def plan(self, key: tuple[int, ...]) -> Iterator[Step]:
        """Gradient steps, once learning has started; each is one or more phases, and then the targets follow."""
        self._key = key
        if not self.learning_started:
            return
        for number in range(self.steps_each):
            for phase in self.phases():
                yield Step(phase, number)
            self.gradient_steps += 1
            for target in self.targets.values():
                target.follow(self.gradient_steps)

    @computing
    def contribute(self, step: Step, shard: int) -> Array:
        """This shard's sums for one phase of a gradient step."""
        contribution = self._contributions.get(shard)
        if contribution is None:
            contribution = self._contributions[shard] = Contribution(self.spec.contribution, self.parameters)
        replay = self.source(shard)
        if not len(replay):
            contribution.clear()
            return contribution.buffer
        batch = self.draw(step.epoch, shard)
        contributed = self.gradient(step, shard, batch, contribution.gradients)
        contribution.to_host()
        contribution.sums[: len(contributed.sums)] = contributed.sums
        contribution.sums[len(contributed.sums) :] = 0
        if contributed.errors is not None:
            replay.set_priorities(batch.indices, batch.generations, contributed.errors)
        return contribution.buffer

    @computing
    def apply(self, step: Step, total: Array) -> None:
        """Take one step with the summed contribution, in the phase's part of the parameters."""
        gradient, sums, _ = self._totals.read(total)
        rows = float(sums[0])
        if rows == 0:
            return
        phase = self._phases[step.phase]
        part = gradient[phase.part]
        norm = float(torch.linalg.vector_norm(part)) / rows
        if not math.isfinite(norm):
            raise WhorlError("the gradient is not finite; the weights are as before: try a lower learning rate")
        measured = self._measured.get(step.phase)
        if measured is None:
            measured = self._measured[step.phase] = Measured()
        measured.add(sums, norm)
        scale = min(1.0, phase.max_grad_norm / (norm + 1e-6)) / rows
        self._optimisers[step.phase].apply(part.mul_(scale), phase.learning_rate)

    def finish(self) -> dict[str, float]:
        """End the update: means of what its steps measured."""
        self.publish(self.parameters.views)
        metrics: dict[str, float] = {}
        for name, measured in self._measured.items():
            metrics |= measured.means(name, self._phases[name].metrics)
        if self._config.replay.prioritised:
            metrics["beta"] = self.beta
        return metrics

    def draw(self, number: int, shard: int) -> Drawn[Item]:
        """The shard's part of the batch of a gradient step: the same for all its phases."""
        drawn = self._drawn.get(shard)
        if drawn is None or drawn[0] != number:
            drawn = self._drawn[shard] = (number, self.draw_anew(number, shard))
        return drawn[1]

    def draw_anew(self, number: int, shard: int) -> Drawn[Item]:
        """From the shard's replay."""
        return self.source(shard).draw(self.uniforms(shard)[number], self.beta)

    def uniforms(self, shard: int) -> Array:
        """The numbers that all draws of this update follow from, [gradient steps, rows of the shard's batch]."""
        return self._uniforms.of(self._key, shard)

    def save(self) -> Arrays:
        """Everything that learners share; replays are saved by shard."""
        self.parameters.to_host()
        parts = {"weights/": self.parameters.views, "target/": {n: t.save() for n, t in self.targets.items()}}
        parts |= {f"optimiser/{name}/": optimiser.save() for name, optimiser in self._optimisers.items()}
        saved = {prefix + name: array.copy() for prefix, part in parts.items() for name, array in part.items()}
        return {**saved, "gradient_steps": np.array(self.gradient_steps, np.int64)}

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Go on from what ``save`` gave."""
        check_same_layout(self.save(), arrays)
        for name, view in self.parameters.views.items():
            view[...] = arrays[f"weights/{name}"]
        self.parameters.from_host()
        for name, target in self.targets.items():
            target.load(arrays[f"target/{name}"])
        for name, optimiser in self._optimisers.items():
            optimiser.load(leaves_of(arrays, f"optimiser/{name}/"))
        self.gradient_steps = int(arrays["gradient_steps"])

    def save_shard(self, shard: int) -> dict[str, Arrays]:
        """The shard's replay, where it is here."""
        return {} if shard in self._sources else self.replay(shard).save()

    def load_shard(self, shard: int, pieces: Mapping[str, Arrays]) -> None:
        """Go on with the shard's replay."""
        self.replay(shard).load(pieces)

    @property
    def beta(self) -> float:
        """The exponent of the importance weights, this update."""
        return self._config.replay.beta(self.progress.fraction)

    def draw_from(self, sources: Mapping[int, Source[Item]], steps_at_once: int) -> None:
        """Draw from these and no longer from replays of one's own."""
        del steps_at_once  # sequences are drawn for one step at a time
        self._sources = dict(sources)

    def everything(self) -> Array:
        """The flat buffer of all parameters, current."""
        self.parameters.to_host()
        return self.parameters.buffer

    def source(self, shard: int) -> Source[Item]:
        """What the shard's draws come from."""
        return self._sources[shard] if shard in self._sources else self.replay(shard)

    def replay(self, shard: int) -> Memory[Item]:
        """The shard's replay, made when it is first asked for."""
        found = self._replays.get(shard)
        if found is None:
            found = self._replays[shard] = self.make_replay()
        return found
