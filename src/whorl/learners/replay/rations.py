"""How an update's draws are cut into batches that travel, and what a batch looks like.

A batch holds the draws of a shard of the learners' batch for one gradient step, or for several where an update takes
many: no more than 32 batches are needed for an update, so that their number is a number of slots.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from whorl.agents.contract import AgentSpec, Draws, MemorySize
from whorl.job import Job
from whorl.learners.replay.news import news_fields
from whorl.replay.memory import Drawn, Memory
from whorl.replay.packing import fields_of, packed, unpacked
from whorl.trajectory.episodes import told_metrics
from whorl.types import Arrays, Field, Layout, leaves_of

MOST_BATCHES = 32
"""Of an update, for each learner, but for at least one of each shard."""
_DRAWN = "drawn/"


def draws_of(agent: AgentSpec) -> Draws:
    """Of an agent that the workflow has not refused."""
    assert agent.draws is not None
    return agent.draws


@dataclass(frozen=True)
class Rations:
    """What each learner needs for an update."""

    share: int
    """Draws of a shard for one gradient step."""
    gradient_steps: int
    """Of an update."""
    steps_per_batch: int
    batches: int
    """Of an update, for one learner."""

    @classmethod
    def of(cls, job: Job) -> Rations:
        """Of a job whose agent has a replay."""
        drawn, lanes = draws_of(job.agent_spec), job.lane_map
        shards = lanes.shards // lanes.learners
        steps = drawn.gradient_steps or job.agent_spec.rows * lanes.batch_lanes
        each = -(-steps * shards // MOST_BATCHES)
        return cls(drawn.batch_size // lanes.shards, steps, each, shards * -(-steps // each))

    @property
    def draws(self) -> int:
        """Of a batch."""
        return self.share * self.steps_per_batch


def samples_per_insert(job: Job) -> float:
    """As set, or as in ``sync``: what an update draws, over the env steps that it would collect."""
    wanted = job.config.workflow.samples_per_insert
    if wanted is not None:
        return float(wanted)
    drawn = draws_of(job.agent_spec).batch_size * Rations.of(job).gradient_steps
    return drawn / (job.agent_spec.rows * job.lane_map.batch_lanes)


def make_memory(job: Job, rows: int) -> Memory[Any]:
    """An empty memory of one column."""
    assert job.agent.memory is not None
    return job.agent.memory(job.config.agent, job.env, MemorySize(1, rows, contiguous=False))


def least_rows(agent: AgentSpec, envs_per_actor: int) -> int:
    """A memory must be able to take a trajectory in, and still have something to draw from."""
    length = agent.replay_lead_rows + agent.rows + 1
    return length * (envs_per_actor + 2 + -(-draws_of(agent).n_step // length))


class BatchForm:
    """What a batch holds, and how it is written and read."""

    def __init__(self, job: Job) -> None:
        count = Rations.of(job).draws
        least = least_rows(job.agent_spec, job.config.resources.envs_per_actor)
        blank = make_memory(job, least).take(np.zeros(count, np.int64))
        self._kind = type(blank)
        self.layout = Layout(
            (
                *fields_of(packed(blank), _DRAWN),
                Field("weights", (count,), "float32"),
                Field("indices", (count,), "int64"),
                Field("generations", (count,), "int64"),
                *news_fields(len(told_metrics(job.env))),
            )
        )

    def write(self, batch: Arrays, drawn: Drawn[Any]) -> None:
        """Fill in everything but the news."""
        for name, array in packed(drawn.transitions).items():
            batch[_DRAWN + name][...] = array
        batch["weights"][:] = drawn.weights
        batch["indices"][:] = drawn.indices
        batch["generations"][:] = drawn.generations

    def read(self, batch: Arrays) -> Drawn[Any]:
        """The inverse of ``write``, without a copy."""
        item = unpacked(self._kind, leaves_of(batch, _DRAWN))
        return Drawn(item, batch["weights"], batch["indices"], batch["generations"])


def priorities_layout(job: Job) -> Layout:
    """What a learner sends back to a replay after an update: errors of what it learnt from, ``count`` of them."""
    rations = Rations.of(job)
    most = rations.batches * rations.draws
    return Layout(
        (
            Field("count", (1,), "int64"),
            Field("indices", (most,), "int64"),
            Field("generations", (most,), "int64"),
            Field("errors", (most,), "float32"),
        )
    )
