"""Training from Python: ``whorl.train`` runs a job to its end, ``whorl.Trainer`` steps it under the user's own loop.

    run = whorl.train("ppo", "CartPole-v1", steps=100_000, actors=4)

    with whorl.Trainer("ppo", "CartPole-v1") as trainer:
        while trainer.env_steps < 50_000:
            print(trainer.step()["return_mean"])
        trainer.save()
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from whorl.config.schema import Config
from whorl.engines.contract import Message, RoleId
from whorl.engines.registry import make_engine
from whorl.errors import CheckpointError, WhorlError
from whorl.job import Job
from whorl.policy import TrainedPolicy
from whorl.prepare import prepare
from whorl.runs.directory import RunDirectory
from whorl.runs.journal import Journal
from whorl.workflows.registry import get_workflow

FIRST_LEARNER = RoleId("learner", 0)
UNLIMITED = 2**62
STOP_TIMEOUT_S = 60.0


class Session:
    """A job on its engine: what ``Trainer`` and the command line share.

    Roles report to it; it keeps the journal (metrics, console, counts) and passes wishes on to the first learner.
    """

    def __init__(self, config: Config, directory: RunDirectory, journal: Journal) -> None:
        self.directory = directory
        self.journal = journal
        self.job = prepare(config, directory)
        self.finished: dict[str, Any] | None = None
        self._opened = False
        self._limit = 0
        self._saved: list[Mapping[str, Any]] = []
        self._weights: np.ndarray[Any, Any] | None = None
        workflow = get_workflow(self.job.config.workflow.name)
        plan = workflow.plan(self.job)
        plan.check()
        journal.begin(self.job)
        engine = make_engine(self.job.config.engine, log_dir=directory.path / "logs")
        self.cluster = engine.launch(plan, self)

    # What roles report ------------------------------------------------------------------------------------------------

    def on_message(self, message: Message) -> None:
        """A role's message to the supervisor."""
        body = message.body
        match message.kind:
            case "opened":
                self._opened = True
                self.journal.opened(body)
                self.allow(self._limit)  # a restarted learner has forgotten how far it may go
            case "metrics":
                self.journal.record(body)
            case "saved":
                self._saved.append(body)
                self.journal.saved(body)
            case "save_failed":
                self._saved.append(body)
                self.journal.save_failed(body["text"])
            case "warning":
                self.journal.warn(body["text"])
            case "weights":
                self._weights = body["buffer"]
            case "finished":
                self.finished = body

    def on_restart(self, role: RoleId, incarnation: int, cause: str) -> None:
        """A process was lost and is being replaced."""
        self.journal.restarted(role, incarnation, cause)

    # What the driver wishes -------------------------------------------------------------------------------------------

    def allow(self, updates: int) -> None:
        """Let the run go on to this many updates."""
        self._limit = updates
        if self._opened:
            self.cluster.send(FIRST_LEARNER, "limit", {"updates": updates})

    def run(self, until: Callable[[], bool], timeout_s: float | None = None) -> None:
        """Supervise until the condition holds or the run has finished."""

        def enough() -> bool:
            self.journal.show(self.cluster)
            return until() or self.finished is not None

        self.cluster.run(enough, timeout_s)

    def save(self) -> Path:
        """Write a checkpoint now, between updates."""
        self._saved.clear()
        self.cluster.send(FIRST_LEARNER, "save")
        self.run(lambda: bool(self._saved), STOP_TIMEOUT_S)
        outcome = self._saved[-1] if self._saved else {"text": "no answer from the learner"}
        if "path" not in outcome:
            raise CheckpointError(f"the checkpoint was not written: {outcome['text']}")
        return Path(outcome["path"])

    def stop(self) -> None:
        """Save at the boundary and end the learners."""
        for learner in range(self.job.lane_map.learners):
            self.cluster.send(RoleId("learner", learner), "stop")
        self.run(lambda: False, STOP_TIMEOUT_S)
        if self.finished is None:
            raise WhorlError(f"the learner did not stop within {STOP_TIMEOUT_S:g} s; the last checkpoint is intact")

    def policy(self) -> TrainedPolicy:
        """The policy as it is now."""
        self._weights = None
        self.cluster.send(FIRST_LEARNER, "weights")
        self.run(lambda: self._weights is not None, STOP_TIMEOUT_S)
        if self._weights is None:
            raise WhorlError(f"the learner did not send its weights within {STOP_TIMEOUT_S:g} s")
        return TrainedPolicy(self.job, self._weights)

    def close(self) -> None:
        """End every process."""
        self.cluster.close()


class Trainer:
    """A run under your own loop. Settings are the command line's flags by name, and ``set={"agent.clip": 0.1}``."""

    def __init__(
        self,
        agent: str,
        env: str,
        *,
        run_dir: str | Path | None = None,
        set: Mapping[str, Any] | None = None,  # noqa: A002 - the name of the flag
        **flags: Any,
    ) -> None:
        from whorl.resolve import resolve_config

        config = resolve_config(agent, env, flags=flags, sets=set or {})
        directory = RunDirectory.create(run_dir, agent, config.env.id)
        self._session = Session(config, directory, Journal(directory))
        self._started = time.monotonic()
        self._closed = False

    @property
    def path(self) -> Path:
        """The run directory."""
        return self._session.directory.path

    @property
    def updates(self) -> int:
        """Updates so far."""
        return self._session.journal.updates

    @property
    def env_steps(self) -> int:
        """Environment steps learnt from so far."""
        return self._session.journal.env_steps

    @property
    def done(self) -> bool:
        """The run has reached its steps or its return."""
        return self._session.finished is not None

    def step(self, updates: int = 1) -> dict[str, Any]:
        """Collect and learn; returns the last update's metrics."""
        goal = self.updates + updates
        self._session.allow(goal)
        self._session.run(lambda: self.updates >= goal)
        return self._session.journal.last

    def save(self) -> Path:
        """Write a checkpoint and return its path."""
        return self._session.save()

    def policy(self) -> TrainedPolicy:
        """The current policy, to act with."""
        return self._session.policy()

    def evaluate(self, episodes: int = 10) -> dict[str, Any]:
        """Play whole episodes greedily in fresh environments; returns mean return and length."""
        from whorl.evaluate import evaluate

        return evaluate(self.policy(), episodes).summary()

    def close(self) -> None:
        """Save, end every process and write the result. Closing twice is fine."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._session.finished is None:
                self._session.stop()
        finally:
            self._session.close()
            self._session.journal.finish(self._session.finished, "stopped")
            self._session.directory.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


__all__ = ["Job", "Session", "Trainer"]
