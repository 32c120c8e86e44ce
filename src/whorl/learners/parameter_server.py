"""A learner that computes no gradients: actors send theirs, each with a digest of the trajectory it is of.

The digest is what the ledger needs of a trajectory: everything but the observations, of which it keeps the last row.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import cast

from whorl.agents.contract import Adopting, Progress
from whorl.engines.contract import Group, Wait
from whorl.job import Job
from whorl.learners.learner import Learner, learner_settings
from whorl.trajectory.layout import trajectory_layout
from whorl.types import Array, Arrays, Field, Layout

MOST_STEPS = 4
"""Of an update's plan, whose last is the gradient."""


def digest_layout(job: Job) -> Layout:
    """What an actor sends: contributions to the steps of the plan, and the trajectory's digest."""
    agent, lanes = job.agent_spec, job.lane_map.envs_per_actor
    whole = trajectory_layout(job.env, rows=agent.rows, lanes=lanes, fields=(), state=())
    ends = (Field(f"end/state/{field.name}", (lanes, *field.shape), field.dtype) for field in agent.state)
    return Layout(
        (
            *(field for field in whole.fields if not field.name.startswith("obs/")),
            *job.env.observation_fields("obs/", 1, lanes),
            *ends,
            Field("contributions", (MOST_STEPS, agent.contribution.size_bytes), "uint8"),
        )
    )


class Contributor:
    """An actor's learning half: gradients of its own trajectories, by the weights they were collected with."""

    def __init__(self, job: Job) -> None:
        config = job.config
        settings = learner_settings(job, shards=1, lanes=job.lane_map.envs_per_actor, contiguous=False)
        settings = replace(settings, device="cpu", threads=1)  # there are many of these
        self._learning = cast(Adopting, job.agent.learning(config.agent, job.env, settings))
        self._seed, self._total = config.run.seed, config.run.steps

    def contribute(self, everything: Array, trajectory: Arrays, digest: Arrays) -> None:
        """Fill in the steps of the plan. Each is taken here as well, since the next may need it; the weights that come
        of it are overwritten by the next ones published."""
        learning, number = self._learning, int(trajectory["number"][0])
        learning.adopt(everything)
        learning.begin({0: trajectory}, Progress(int(trajectory["version"][0]), 0, self._total))
        for count, step in enumerate(learning.plan((self._seed, number))):
            part = learning.contribute(step, 0)
            digest["contributions"][count] = part
            learning.apply(step, part)
        learning.finish()


class ParameterServer(Learner):
    """Applies gradients as they come."""

    def published(self) -> Array:
        """Actors need more than to act."""
        return cast(Adopting, self.learning).everything()

    def learn(
        self, trajectories: list[Arrays], progress: Progress, contributions: Group
    ) -> Generator[Wait, None, None]:
        """Take the steps of the plan with what the actor contributed to each."""
        del contributions
        (digest,) = trajectories
        self.learning.begin({}, progress)
        for number, step in enumerate(self.learning.plan(self.key)):
            self.learning.apply(step, digest["contributions"][number])
        yield from ()
