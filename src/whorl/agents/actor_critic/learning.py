"""The learning half that actor-critic agents share. What differs is how a minibatch becomes gradients.

statistics   moments of observations and returns, for the normalisers
...          what an agent does before its minibatches
minibatch    gradient of the objective, as sums over valid rows; apply divides, clips and steps
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from whorl.agents.actor_critic.acting import SUMS_WIDTH, build_network
from whorl.agents.actor_critic.computing import computing
from whorl.agents.actor_critic.contribution import Contribution, Totals
from whorl.agents.actor_critic.normaliser import Normaliser
from whorl.agents.actor_critic.objective import Gradients
from whorl.agents.actor_critic.optimiser import Optimiser
from whorl.agents.actor_critic.settings import ActorCriticConfig
from whorl.agents.actor_critic.shard import Shard
from whorl.agents.contract import AgentSpec, LearnerSettings, Progress, Step
from whorl.errors import CheckpointError, WhorlError
from whorl.models.differentiable import differentiable
from whorl.models.flat import FlatParameters
from whorl.ops.namespace import host
from whorl.types import Array, Arrays, EnvSpec, leaves_of

_EPS = 1e-8


class ActorCriticLearning(ABC):
    """Holds weights, optimiser and normalisers; every learner holds the same."""

    metric_names: ClassVar[tuple[str, ...]] = ("policy_loss", "value_loss", "entropy")
    """What ``Gradients.sums`` holds after the number of rows."""
    epochs: int = 1
    minibatches: int = 1

    def __init__(
        self,
        config: ActorCriticConfig,
        env: EnvSpec,
        spec: AgentSpec,
        settings: LearnerSettings,
        optimiser: Callable[[Tensor, float], Optimiser],
        eps: float,
    ) -> None:
        torch.set_num_threads(settings.threads)
        self.spec = spec
        self.network = build_network(config, env)
        self._config = config
        self._compile = settings.compile
        device = torch.device(settings.device)
        self._device = device
        self._parameters = FlatParameters(self.network, settings.seed, device)
        self._optimiser = optimiser(self._parameters.flat, eps)
        self.model = differentiable(self.network, self._parameters.tensors, settings.compile, settings.precision)
        self.normaliser = Normaliser(self.network, config.normalise_rewards)
        self._totals = Totals(self.spec.contribution, device)
        self._contributions: dict[int, Contribution] = {}
        self.shards: dict[int, Shard] = {}
        self._key: tuple[int, ...] = ()
        self._learning_rate = 0.0
        self.sums = np.zeros(SUMS_WIDTH)
        self._gradient_norms: list[float] = []
        self.metrics: dict[str, float] = {}
        self._stopped = False

    @abstractmethod
    def gradients(self, rows: Shard, key: tuple[int, ...], step: Step) -> Gradients:
        """Run the model forward on a minibatch; gradients of the agent's loss by its outputs, and the sums."""

    def before_minibatches(self) -> Iterator[Step]:
        """What the agent does first."""
        return iter(())

    def contribute_before(self, rows: Shard, step: Step) -> Array:
        """Sums for one of these steps."""
        raise NotImplementedError(step.phase)

    def apply_before(self, step: Step, sums: Array) -> None:
        """Take one of these steps."""
        raise NotImplementedError(step.phase)

    def compiled(self, function: Callable[..., Gradients]) -> Callable[..., Gradients]:
        """The function compiled, if that is asked for and it works on tensors."""
        return torch.compile(function) if self._compile and not self.model.gives_numpy else function

    def too_far(self, sums: Array) -> bool:
        """True ends the update before this step is taken."""
        del sums
        return False

    def weights(self) -> Array:
        """The flat buffer of ``spec.weights``, current."""
        return self._parameters.weights()

    def everything(self) -> Array:
        """The flat buffer of ``spec.parameters``, current."""
        self._parameters.to_host()
        return self._parameters.buffer

    def adopt(self, everything: Array) -> None:
        """Go on with what another learner published."""
        self._parameters.buffer[:] = everything
        self._parameters.from_host()

    @computing
    def begin(self, shards: Mapping[int, Arrays], progress: Progress) -> None:
        """Take this learner's shards of the batch."""
        views = self._parameters.views
        self.shards = {index: Shard(self.network, views, rows, self._device) for index, rows in shards.items()}
        self._learning_rate = self._config.learning_rate
        if self._config.anneal == "linear":
            self._learning_rate *= 1 - progress.fraction
        self.sums[:] = 0
        self._gradient_norms = []
        self.metrics = {"learning_rate": self._learning_rate}
        self._stopped = False

    def plan(self, key: tuple[int, ...]) -> Iterator[Step]:
        """Statistics if anything is normalised, then epochs of minibatches until done or too far."""
        self._key = key
        if self.normaliser.active:
            yield Step("statistics")
        yield from self.before_minibatches()
        for epoch in range(self.epochs):
            for minibatch in range(self.minibatches):
                if self._stopped:
                    return
                yield Step("minibatch", epoch, minibatch)

    @computing
    def contribute(self, step: Step, shard: int) -> Array:
        """This shard's sums for one step of the plan."""
        contribution = self._contributions.get(shard)
        if contribution is None:
            contribution = self._contributions[shard] = Contribution(self.spec.contribution, self._parameters)
        rows = self.shards[shard]
        if step.phase == "minibatch":
            gradients = self.gradients(rows, (*self._key, shard), step)
            self.model.backward(gradients.d_policy, gradients.d_value, contribution.gradients)
            contribution.to_host()
            sums = host(gradients.sums)
            contribution.sums[: len(sums)] = sums
        else:
            contribution.clear()
            if step.phase == "statistics":
                contribution.moments[:] = self.normaliser.sums(rows.trajectory)
            else:
                contribution.sums[:] = self.contribute_before(rows, step)
        return contribution.buffer

    @computing
    def apply(self, step: Step, total: Array) -> None:
        """Take one step with the summed contribution."""
        gradient, sums, moments = self._totals.read(total)
        if step.phase == "minibatch":
            self._descend(gradient, sums)
        elif step.phase == "statistics":
            self.normaliser.merge(moments)
        else:
            self.apply_before(step, sums)

    def finish(self) -> dict[str, float]:
        """End the update: actors get the new statistics, and the shards are let go."""
        self.normaliser.publish(self._parameters.views)
        self.shards = {}
        if self.sums[0]:
            self.metrics["gradient_norm"] = float(np.mean(self._gradient_norms or [0.0]))
            means = self.sums[1:] / self.sums[0]
            self.metrics |= {name: float(mean) for name, mean in zip(self.metric_names, means, strict=False)}
        return self.metrics

    def save(self) -> Arrays:
        """Everything needed to go on exactly, as named arrays."""
        self._parameters.to_host()
        parts = {"weights/": self._parameters.views}
        parts |= {"optimiser/": self._optimiser.save(), "normaliser/": self.normaliser.save()}
        return {prefix + name: array.copy() for prefix, part in parts.items() for name, array in part.items()}

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Go on from what ``save`` gave."""
        check_same_layout(self.save(), arrays)
        for name, view in self._parameters.views.items():
            view[...] = arrays[f"weights/{name}"]
        self._parameters.from_host()
        self._optimiser.load(leaves_of(arrays, "optimiser/"))
        self.normaliser.load(leaves_of(arrays, "normaliser/"))

    def save_shard(self, shard: int) -> dict[str, Arrays]:
        """Nothing: every batch is learnt from once and let go."""
        del shard
        return {}

    def load_shard(self, shard: int, pieces: Mapping[str, Arrays]) -> None:
        """Nothing to go on from."""
        del shard, pieces

    def _descend(self, gradient: Tensor, sums: Array) -> None:
        rows = float(sums[0])
        if rows == 0:
            return
        self.sums += sums
        if self.too_far(sums):
            self._stopped = True
            return
        norm = float(torch.linalg.vector_norm(gradient)) / rows
        if not math.isfinite(norm):
            raise WhorlError("the gradient is not finite; the weights are as before: try a lower agent.learning_rate")
        scale = min(1.0, self._config.max_grad_norm / (norm + 1e-6)) / rows
        self._gradient_norms.append(norm)
        self._optimiser.apply(gradient * scale, self._learning_rate)


def check_same_layout(expected: Arrays, arrays: Mapping[str, Array]) -> None:
    """Refuse saved arrays that are not of this agent, network or environment."""
    for name, array in expected.items():
        if name not in arrays:
            raise CheckpointError(f"the saved state has no {name!r}: it is of another agent or network")
        if arrays[name].shape != array.shape:
            raise CheckpointError(f"{name!r} is {arrays[name].shape} in the saved state and {array.shape} here")
