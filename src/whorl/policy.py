"""A trained policy to act with, in the environment's own terms."""

from __future__ import annotations

from typing import Any

import numpy as np

from whorl.agents.contract import Policy
from whorl.envs.containment import close_quietly
from whorl.envs.door import ObservationDoor, RefusedValue, action_door
from whorl.envs.registry import make_env
from whorl.errors import BadInputError, CheckpointError
from whorl.job import Job
from whorl.ops.noise import uniform
from whorl.runs.checkpoint import load_latest, taking_over
from whorl.runs.directory import RunDirectory
from whorl.types import Array, Arrays

SAMPLING = "sampling"
"""The purpose word of noise for sampled actions outside training."""


def newest_policy(job: Job, directory: RunDirectory) -> TrainedPolicy:
    """The policy of a run's newest checkpoint."""
    checkpoint = load_latest(directory.checkpoints)
    if checkpoint is None:
        path = directory.path
        raise CheckpointError(f"{path}: no checkpoint yet; `whorl resume {path}` trains it")
    with taking_over(checkpoint.path):
        weights, needed = checkpoint.arrays["learner"]["weights"], job.agent_spec.weights.size_bytes
        if weights.nbytes != needed:
            raise ValueError(f"its weights have {weights.nbytes} bytes, and by config.toml they have {needed}")
    return TrainedPolicy(job, weights)


class RefusedObservation(BadInputError):
    """Not an observation of the environment that the policy was trained on."""


class TrainedPolicy:
    """Maps the environment's observations to its actions, one environment at a time.

    >>> observation, _ = env.reset()                     # doctest: +SKIP
    >>> policy.reset()                                   # doctest: +SKIP
    >>> action = policy.act(observation)                 # doctest: +SKIP
    """

    def __init__(self, job: Job, weights: Array) -> None:
        self.job = job
        self.acting: Policy = job.agent.policy(job.config.agent, job.env)
        """The agent's acting half, for batches of rows."""
        self.weights = job.agent_spec.weights.views(weights)
        env = make_env(job.config.env.id, job.config.env.kwargs)
        try:
            self._door = ObservationDoor(env.observation_space, job.env.env_id, job.config.env.max_observation_bytes)
            self._to_action = action_door(env.action_space)
        finally:
            close_quietly(env)
        self._observation: Arrays = {leaf.name: np.zeros((1, *leaf.shape), leaf.dtype) for leaf in job.env.observation}
        self._blocks = list(self._observation.values())
        self._is_sound = self._door.row_check(self._blocks)
        self._rows = 0
        self.reset()

    def reset(self) -> None:
        """Begin an episode: forget the recurrent state."""
        self._first = np.ones(1, np.bool_)
        self._state: Arrays = {f.name: np.zeros((1, *f.shape), f.dtype) for f in self.acting.spec.state}

    def act(self, observation: Any, sample: bool = False) -> Any:
        """The best action for an observation, or one drawn from the policy. Both in the environment's own form."""
        self._take_in(observation)
        noise = None
        if sample:
            width = self.acting.spec.noise_width
            noise = uniform(self.job.config.run.seed, SAMPLING, np.zeros(1, np.int64), self._rows, 1, width)[0]
        self._rows += 1
        acted = self.acting.act(self.weights, self._observation, self._state, self._first, noise)
        self._state = acted.state
        self._first = np.zeros(1, np.bool_)
        return self._to_action(acted.actions)[0]

    def _take_in(self, observation: Any) -> None:
        try:
            self._door.write(observation, [block[0, ...] for block in self._blocks])  # ... keeps a number an array
            if not self._is_sound() and (found := self._door.explain(self._blocks)):
                raise found[1]
        except RefusedValue as error:
            raise RefusedObservation(str(error)) from error
