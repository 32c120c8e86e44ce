"""What an agent is: two halves, one that acts and one that learns.

Agents never see a process, a rank or a queue. An actor calls the acting half row by row; a learner calls the
learning half update by update, however many learners there are:

    policy.act(weights, observation, state, first, noise)          actor, once per row

    learning.begin(shards, progress)                               learner, once per update
    for step in learning.plan(key):
        total = group.sum(learning.contribute(step, s) for s in my_shards)
        learning.apply(step, total)
    metrics = learning.finish()

    postprocess(weights, trajectory)                               once per trajectory, wherever the workflow likes

A batch is a fixed number of *shards* (each the same lanes of every trajectory). ``contribute`` returns plain sums
over its shard's valid rows, never means: sums add up in a fixed order to the same bits for any number of learners,
and ``apply`` divides by the summed counts.

Both halves live in one package ``agents/<name>/``: ``config.py`` (settings), ``acting.py`` (imports no torch when the
network is small), ``learning.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from whorl.replay.memory import Memory, Source
from whorl.types import Array, Arrays, EnvSpec, Field, Layout


@dataclass(frozen=True)
class Draws:
    """What is drawn from a memory that lies elsewhere, for a learning half that can learn so (see ``Replaying``)."""

    batch_size: int
    """Drawn for each gradient step, over all shards."""
    gradient_steps: int
    """Of each update; 0: as many as rows are collected for it."""
    capacity: int
    """Rows kept, over all environments."""
    learning_starts: int = 0
    """Environment steps before the first draw."""
    n_step: int = 1
    least_rows: int = 0
    """That the learning half's own memory keeps of each lane, or it could not hold what is drawn."""
    least_rows_apart: int = 0
    """The same where trajectories do not follow on each other (see ``MemorySize.contiguous``)."""


@dataclass(frozen=True)
class AgentSpec:
    """What the agent stores, and what it tolerates."""

    fields: tuple[Field, ...]
    """What ``act`` adds to each row, per lane: ``Field("log_prob", (), "float32")``."""
    state: tuple[Field, ...]
    """Recurrent state per lane; empty for a feed-forward network."""
    weights: Layout
    """Everything acting needs, normaliser statistics included."""
    contribution: Layout
    """What ``contribute`` returns: gradients, counts, moments."""
    noise_width: int
    """Uniform numbers in (0, 1) that ``act`` takes per lane and row."""
    rows: int
    """Rows per trajectory (T)."""
    lead_rows: int = 0
    """Rows before the learnt ones, to warm up a recurrent state."""
    fewest_lanes: int = 1
    """In each shard of a batch, so that none of its minibatches is empty."""
    staleness: Literal["strict", "correctable", "any"] = "strict"
    """Which data it can learn from: only what the newest weights collected (in ``overlap``: those before), older data
    whose difference it corrects for, or any."""
    replay: Literal["none", "uniform", "prioritised"] = "none"
    draws: Draws | None = None
    """For agents that can be run in the workflow ``replay``, which also takes ``Agent.memory`` and ``Replaying``."""
    replay_bytes: int = 0
    """Memory of a full replay, over all learners."""
    replay_lead_rows: int = 0
    """Rows that a replay puts before a trajectory which follows on none."""
    discount: float = 0.99
    wants_discounted_return: bool = False
    """Trajectories come with ``discounted_return`` [T, B]: each lane's running discounted sum of rewards within its
    episode, which reward normalisation needs and a single trajectory does not hold."""
    exploration: str = ""
    """The weight that measures how much is explored, between 0 and 1, where there is one. ``act`` also takes it as an
    array with a number for each lane."""
    priority_rows: int = 0
    """Priorities that ``postprocess`` gives for each lane of a trajectory: as many as rows, or 1 where sequences are
    drawn whole. 0: it gives none."""
    gradient_steps: int = 0
    """Optimiser steps of each update, where an update learns from its own batch and nothing else; 0: other agents.
    Those with 1 can have their gradients computed elsewhere (see ``Adopting``)."""
    parameters: Layout | None = None
    """For those, and for agents with priorities: everything that a gradient is computed with, the ``weights``
    first."""
    acting: Literal["numpy", "torch"] = "numpy"
    """Chosen by the network, never by the engine: their results differ in the last bit."""


class Acted(NamedTuple):
    """What ``act`` returns."""

    actions: Array
    """[lanes, *action.shape], as the environment takes them."""
    fields: Arrays
    """The spec's fields, [lanes, *shape]."""
    state: Arrays
    """The recurrent state after this row, [lanes, *shape]."""


class Policy(Protocol):
    """The acting half. Pure: the same arguments give the same bits, whatever the other lanes hold."""

    spec: AgentSpec

    def act(self, weights: Arrays, observation: Arrays, state: Arrays, first: Array, noise: Array | None) -> Acted:
        """Actions for [lanes] rows. ``first`` marks rows whose state is zeroed before use; ``noise`` is
        [lanes, noise_width], or None to act greedily."""
        ...


@runtime_checkable
class Renewed(Protocol):
    """A policy that makes something of its weights before it acts with them, once for many rows."""

    def renew(self, weights: Arrays, precision: Literal["float32", "bfloat16"]) -> None:
        """Whoever acts says when the weights have changed, and in which numbers images are to be computed. ``act`` is
        given the same weights until the next call; without any call it takes them as they come, in float32."""
        ...


class Postprocess(Protocol):
    """What can be said of a whole trajectory where it was collected, in one batch of all its rows. Pure."""

    def __call__(self, weights: Arrays, trajectory: Arrays) -> Array:
        """Priorities [``spec.priority_rows``, lanes]: absolute temporal-difference errors against n-step targets, by
        ``weights`` of ``spec.parameters``; 0 for rows that are not valid."""
        ...


class Progress(NamedTuple):
    """How far the run is. Schedules read this and never the clock."""

    updates: int
    env_steps: int
    total_env_steps: int

    @property
    def fraction(self) -> float:
        """Of the environment steps learnt from before this update: 0 at the first one, under 1 at the last."""
        return min(1.0, self.env_steps / max(1, self.total_env_steps))


class Step(NamedTuple):
    """One sum of an update's plan: a phase (``"moments"``, ``"minibatch"``) and where in it."""

    phase: str
    epoch: int = 0
    minibatch: int = 0


class Learning(Protocol):
    """The learning half. Holds weights, optimiser and normalisers; every learner holds the same."""

    spec: AgentSpec

    def weights(self) -> Array:
        """The flat buffer of ``spec.weights``, current. Not copied: publish or copy it before the next step."""
        ...

    def begin(self, shards: Mapping[int, Arrays], progress: Progress) -> None:
        """Take this learner's shards of the batch: shard number to a trajectory of [T + 1, lanes of the shard, ...].
        The arrays may be shared memory: copy what must outlive ``finish``."""
        ...

    def plan(self, key: tuple[int, ...]) -> Iterator[Step]:
        """The steps of this update. ``key`` (seed, update) feeds every shuffle. May end early (KL stop)."""
        ...

    def contribute(self, step: Step, shard: int) -> Array:
        """This shard's sums: a flat buffer of ``spec.contribution``, overwritten by the next call for that shard."""
        ...

    def apply(self, step: Step, total: Array) -> None:
        """Take one step with the summed contribution."""
        ...

    def finish(self) -> dict[str, float]:
        """End the update: returns its metrics (losses, entropy, KL, ...). Those that a run counts itself (``update``,
        ``env_steps``, ``return_mean``, ...) are left out of its record."""
        ...

    def save(self) -> Arrays:
        """Everything needed to go on exactly, as named arrays; the trained weights under ``weights/``."""
        ...

    def load(self, arrays: Mapping[str, Array]) -> None: ...

    def save_shard(self, shard: int) -> dict[str, Arrays]:
        """What belongs to one shard alone (a replay), as named pieces, each a file of a checkpoint; {} where there is
        nothing. The arrays are not copied. A piece may hold ``stamp``, an int64 that changes whenever the piece does:
        one whose stamp is that of the checkpoint before is not written again."""
        ...

    def load_shard(self, shard: int, pieces: Mapping[str, Arrays]) -> None: ...


class Replaying(Learning, Protocol):
    """A learning half that draws from a memory: its own, or another that it is given."""

    def draw_from(self, sources: Mapping[int, Source[Any]], steps_at_once: int) -> None:
        """Draw from these from now on, by shard, and store nothing; the draws of this many gradient steps at a time."""
        ...

    def everything(self) -> Array:
        """The flat buffer of ``spec.parameters``, current. Not copied."""
        ...


class Adopting(Learning, Protocol):
    """A learning half that can go on with weights that another one published: its gradients are applied there."""

    def everything(self) -> Array:
        """The flat buffer of ``spec.parameters``, current. Not copied."""
        ...

    def adopt(self, everything: Array) -> None:
        """Take over such a buffer of another."""
        ...


@dataclass(frozen=True)
class Agent:
    """A registered agent. The functions import what they need when called, so that listing agents stays quick."""

    name: str
    summary: str
    config: type
    """Frozen dataclass of its settings; field docstrings are help and reference."""
    spec: Callable[[Any, EnvSpec], AgentSpec]
    """(agent config, environment spec) to what it stores. Raises ``ConfigError`` for spaces it cannot serve."""
    policy: Callable[[Any, EnvSpec], Policy]
    learning: Callable[[Any, EnvSpec, LearnerSettings], Learning]
    workflow: str = "sync"
    """Its default workflow."""
    memory: Callable[[Any, EnvSpec, MemorySize], Memory[Any]] | None = None
    """(agent config, environment spec, size) to an empty memory of what it learns from; None for agents without."""
    postprocess: Callable[[Any, EnvSpec], Postprocess] | None = None
    """(agent config, environment spec) to what can be said of its trajectories; needs no torch where ``act`` does
    not."""


@dataclass(frozen=True)
class MemorySize:
    """How much a memory holds, and of what."""

    lanes: int
    rows: int
    """Of each lane."""
    contiguous: bool
    """Each lane's trajectory follows on its last one; otherwise a row is stored behind each that cuts it off."""


@dataclass(frozen=True)
class LearnerSettings:
    """Where and with what the learning half computes."""

    seed: int
    device: str
    threads: int
    compile: bool
    shards: int
    """Of the whole batch."""
    lanes: int
    """Of the whole batch."""
    contiguous: bool = True
    """Each lane's trajectory follows on its last one. If not, nothing is known about the rows behind a trajectory."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of what images go through; everything else is float32."""
