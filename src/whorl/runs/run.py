"""What ``whorl.train`` returns: a finished (or stopped) run to look at and to act with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from whorl.errors import BadInputError
from whorl.runs.directory import RunDirectory
from whorl.runs.metrics import read_metrics
from whorl.runs.result import Result, Status
from whorl.types import Array


class ActingPolicy(Protocol):
    """The learnt map from observations to actions."""

    def reset(self) -> None:
        """Begin an episode: forget what a recurrent network remembers."""
        ...

    def act(self, observation: Any, sample: bool = False) -> Any:
        """The best action for one observation, both in the environment's own form; or one drawn from the policy."""
        ...


@dataclass(frozen=True)
class Run:
    """A run on disk.

    >>> run = whorl.train("ppo", "CartPole-v1", steps=100_000)      # doctest: +SKIP
    >>> run.result.return_mean, run.metrics["return_mean"][-1]      # doctest: +SKIP
    >>> action = run.policy.act(observation)                        # doctest: +SKIP
    """

    path: Path
    result: Result
    load_policy: Callable[[Path], ActingPolicy] | None = field(default=None, repr=False)
    """Makes the policy from the newest checkpoint, when it is first asked for."""

    @classmethod
    def open(cls, path: Path | str, load_policy: Callable[[Path], ActingPolicy] | None = None) -> Run:
        """A run that has ended, from its directory."""
        directory = RunDirectory.open(path)
        if not directory.result.is_file():
            raise BadInputError(
                f"{path}: has not ended: it is still going on, or `whorl resume {path}` goes on with it"
            )
        return cls(directory.path, Result.read(directory.result), load_policy)

    @property
    def status(self) -> Status:
        """``completed``, ``stopped``, ``preempted`` or ``failed``."""
        return self.result.status

    @cached_property
    def metrics(self) -> dict[str, Array]:
        """Every metric as an array with one value per line of ``metrics.jsonl``."""
        return read_metrics(RunDirectory(self.path).metrics)

    @cached_property
    def policy(self) -> ActingPolicy:
        """The policy of the newest checkpoint."""
        if self.load_policy is None:
            raise BadInputError(f"{self.path}: this run was opened without a policy; use `whorl.train` or `whorl eval`")
        return self.load_policy(self.path)
