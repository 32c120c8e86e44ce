"""Training from Python: ``whorl.train`` runs a job to its end, ``whorl.Trainer`` steps it under the user's own loop.

run = whorl.train("ppo", "CartPole-v1", steps=100_000, actors=4)

with whorl.Trainer("ppo", "CartPole-v1") as trainer:
    while trainer.env_steps < 50_000:
        print(trainer.step()["return_mean"])
    trainer.save()
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, Self

from whorl.cluster.timing import TimeLimit
from whorl.config.bounds import AtLeast
from whorl.config.kinds import Kind
from whorl.config.layers import difference, from_plain
from whorl.config.schema import Config, Resources
from whorl.config.toml import load_toml
from whorl.config.values import check
from whorl.envs.same_spaces import check_kept_spaces
from whorl.errors import EXIT_DONE, EXIT_PREEMPTED, BadInputError, ConfigError, WhorlError
from whorl.evaluate import Evaluation, evaluate
from whorl.job import Job
from whorl.policy import TrainedPolicy, newest_policy
from whorl.prepare import check_machine, prepare
from whorl.resolve import config_from_keywords
from whorl.runs.beginnings import begins_again
from whorl.runs.console import Console, make_console
from whorl.runs.directory import RunDirectory
from whorl.runs.files import shown
from whorl.runs.result import Status, Transitions
from whorl.runs.run import Run
from whorl.session import UNLIMITED, Session, plan_of
from whorl.signals import HeldInterrupt, HeldPreemption, StopSignals
from whorl.workflows.registry import get_workflow


def train(agent: str, env: str, *, run_dir: str | Path | None = None, quiet: bool = True, **settings: Any) -> Run:
    """Train to the end and return the run. Settings are the command line's flags by name (``steps``, ``actors``,
    ``seed``, ...) and ``set={"agent.clip": 0.1}`` for everything else. Ctrl-C or SIGTERM ends it early: the run is
    saved, and its status is ``preempted``."""
    config = config_from_keywords(agent, env, settings)
    session = _drive(lambda signals: _new_session(config, run_dir, make_console(quiet), signals))
    return load(session.directory.path)


def load(run_dir: str | Path) -> Run:
    """A run that has ended: its result, its metrics, its policy."""
    return Run.open(run_dir, load_policy)


def run_training(config: Config, run_dir: Path | None, console: bool = True) -> int:
    """``whorl train``: returns the exit code."""
    return _exit_code(_drive(lambda signals: _new_session(config, run_dir, make_console(not console), signals)))


def resume_training(run_dir: Path, *, steps: int | None = None, console: bool = True, **changes: Any) -> int:
    """``whorl resume``: returns the exit code. ``changes`` are ``actors``, ``envs_per_actor``, ``learners``,
    ``engine`` (None leaves one as it was) and ``stop_return`` (None: do not stop at a return)."""
    return _exit_code(
        _drive(lambda signals: _resumed_session(run_dir, steps, changes, make_console(not console), signals))
    )


def _new_session(
    config: Config, run_dir: str | Path | None, console: Console, signals: StopSignals | None = None
) -> Session:
    """Whatever can be refused is refused before the run directory is made."""
    job = prepare(config)
    check_machine(config)
    plan_of(job)
    if signals is not None:
        signals.hold(TimeLimit(config.run.stop_before_s))
    directory = RunDirectory.create(run_dir, config.agent_name, config.env.id)
    return Session(job, directory, console, write_config=True)


def _resumed_session(
    run_dir: str | Path,
    steps: int | None,
    changes: dict[str, Any],
    console: Console,
    signals: StopSignals | None = None,
) -> Session:
    directory = RunDirectory.open(run_dir)
    stored = stored_config(directory)
    warning = begins_again(directory, stored.run.checkpoint_every_s)
    config = resumed_config(stored, steps, changes)
    changed = difference(stored, config)
    job = _prepared_again(config, directory)
    check_machine(config)
    if signals is not None:
        signals.hold(TimeLimit(config.run.stop_before_s))
    # A changed config is kept, so that the next resume needs no flags to go on with it.
    session = Session(job, directory, console, write_config=bool(changed))
    if warning:
        session.journal.warn(warning)
    for change in changed:
        session.journal.warn(f"resumed with another {change}")
    return session


def resumed_config(stored: Config, steps: int | None, changes: dict[str, Any]) -> Config:
    """The stored config with more steps, on another engine, or with its environments shared out differently."""
    run = replace(stored.run, stop_return=changes.get("stop_return", stored.run.stop_return))
    given = {name: value for name, value in changes.items() if value is not None and name != "stop_return"}
    engine = given.pop("engine", stored.engine.name)
    return replace(
        stored,
        resources=_shared_out(stored.resources, given, get_workflow(stored.workflow.name).learners_act),
        run=run if steps is None else replace(run, steps=steps),
        engine=replace(stored.engine, name=engine),
    )


def _shared_out(stored: Resources, given: dict[str, Any], learners_act: bool) -> Resources:
    """As many environments and shards as before (results depend on both) over other numbers of actors and learners.
    Of actors and envs_per_actor one is enough."""
    lanes = stored.actors * stored.envs_per_actor
    if learners_act and "learners" in given:
        given = {"actors": given["learners"], **given}
    if "actors" in given:
        given = {"envs_per_actor": lanes // given["actors"], **given}
    elif "envs_per_actor" in given:
        given = {"actors": lanes // given["envs_per_actor"], **given}
    resources = replace(stored, **given)
    if resources.actors * resources.envs_per_actor != lanes:
        raise ConfigError(
            f"the run has {lanes} environments and cannot go on with another number of them: actors times "
            f"envs-per-actor must be {lanes}"
        )
    if resources.shards % resources.learners:
        raise ConfigError(
            f"the run cuts each batch into {resources.shards} (resources.shards), which cannot be shared out over "
            f"{resources.learners} learners and cannot change: use a number of learners that divides it"
        )
    return resources


def load_policy(run_dir: Path) -> TrainedPolicy:
    """The policy of a run's newest checkpoint."""
    directory = RunDirectory.open(run_dir)
    return newest_policy(_prepared_again(stored_config(directory), directory), directory)


def _prepared_again(config: Config, directory: RunDirectory) -> Job:
    job = prepare(config)
    check_kept_spaces(directory.env, job.env)
    return job


def evaluate_run(run_dir: Path, *, episodes: int, seed: int = 0, video: bool = False) -> Evaluation:
    """``whorl eval``."""
    policy = load_policy(run_dir)
    return evaluate(policy, episodes, seed=seed, video=Path(run_dir) / "video.mp4" if video else None)


def stored_config(directory: RunDirectory) -> Config:
    """The config a run directory holds."""
    from whorl.agents.registry import get_agent

    plain = load_toml(directory.config)
    name = plain.get("agent", {}).get("name")
    if not isinstance(name, str):
        raise BadInputError(f"{directory.config}: names no agent")
    return from_plain(get_agent(name).config, plain, str(directory.config))


def _drive(make_session: Callable[[StopSignals], Session]) -> Session:
    """Run to the end, or to a signal; always leaves a result and no process."""
    with StopSignals() as signals:
        session = make_session(signals)
        try:
            session.allow(UNLIMITED)
            session.run(lambda: signals.received is not None or session.asked_to_stop)
            if session.finished is None:
                session.stop()
            session.check_saved()
        except BaseException as error:
            session.finish("failed", error)
            raise
        complete = session.finished is not None and session.finished["complete"]
        session.finish("completed" if complete else "preempted")
        return session


def _exit_code(session: Session) -> int:
    return EXIT_PREEMPTED if session.status == "preempted" else EXIT_DONE


class Trainer:
    """A run under your own loop. Settings as for ``whorl.train``. A context manager: leaving it closes the run."""

    def __init__(self, agent: str, env: str, *, run_dir: str | Path | None = None, **settings: Any) -> None:
        config = config_from_keywords(agent, env, settings)
        self._begin(_new_session(config, run_dir, make_console(quiet=True)))

    @classmethod
    def of_config(cls, config: Config, run_dir: str | Path | None = None) -> Self:
        """A new run of a resolved config."""
        trainer = cls.__new__(cls)
        trainer._begin(_new_session(config, run_dir, make_console(quiet=True)))
        return trainer

    @classmethod
    def resume(cls, run_dir: str | Path, *, steps: int | None = None) -> Self:
        """Go on with a run that was stopped."""
        trainer = cls.__new__(cls)
        trainer._begin(_resumed_session(run_dir, steps, {}, make_console(quiet=True)))
        return trainer

    def _begin(self, session: Session) -> None:
        """Wait for the learner, so that the counts of a resumed run are there from the start."""
        self._session = session
        self._preemption = HeldPreemption()
        try:
            self._preemption.begin(lambda: TimeLimit(session.job.config.run.stop_before_s))
            session.open()
        except BaseException as error:
            self._preemption.end()
            session.finish("failed", error)
            raise

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
    def transitions(self) -> Transitions:
        """Where the environment steps went so far: collected = used + dropped + lost + in flight."""
        session = self._open_session()
        return session.journal.transitions(session.cluster)

    @property
    def phase_seconds(self) -> dict[str, dict[str, float]]:
        """What roles of each kind have spent their time on so far, in seconds, summed over the roles."""
        return self._open_session().cluster.time_shares()

    @property
    def done(self) -> bool:
        """The run has reached its steps or its return."""
        return self._session.finished is not None and bool(self._session.finished["complete"])

    def step(self, updates: int = 1) -> dict[str, Any]:
        """Collect and learn; returns the last update's metrics. Ctrl-C is raised where the run can go on or be saved
        (``close`` does); a second one at once.

        After SIGTERM, SIGHUP, SIGUSR1 or SIGUSR2, and shortly before the end of the batch job, the run is saved and
        closed between two updates, and ``SystemExit(75)`` raised: the script ends, and ``Trainer.resume`` goes on. Not
        where the program handles SIGTERM itself.
        """
        updates = check(Kind("integer", bounds=(AtLeast(1),)), updates, "updates")
        goal = self.updates + updates
        session = self._open_session()
        session.allow(goal)
        try:
            session.run(lambda: self.updates >= goal or self._preemption.received is not None)
        except KeyboardInterrupt:
            session.allow(self.updates)
            raise
        if self._preemption.received is not None and not self.done:
            self._leave(self._preemption.received)
        return session.journal.last

    def _leave(self, why: str) -> NoReturn:
        with HeldInterrupt():
            self._close("preempted")
        path = shown(self.path)
        print(f"whorl: stopped by {why}, saved; whorl.Trainer.resume({path!r}) goes on", file=sys.stderr, flush=True)
        raise SystemExit(EXIT_PREEMPTED)

    def save(self) -> Path:
        """Write a checkpoint and return its path."""
        return self._open_session().save()

    def resize(self, actors: int) -> None:
        """Have another number of actors act: in exact workflows the same environments over so many actors, in others
        so many actors with their environments. Nothing that was begun is lost."""
        self._open_session().resize(check(Kind("integer", bounds=(AtLeast(1),)), actors, "actors"))

    def policy(self) -> TrainedPolicy:
        """The current policy, to act with."""
        return self._open_session().policy()

    def evaluate(self, episodes: int = 10, seed: int = 0) -> dict[str, float]:
        """Play whole episodes greedily in a fresh environment, as ``whorl eval`` does: ``return_mean`` and more."""
        return evaluate(self.policy(), episodes, seed=seed).summary()

    def _open_session(self) -> Session:
        if self._session.closed:
            raise WhorlError(f"the trainer is closed; whorl.Trainer.resume({str(self.path)!r}) goes on with its run")
        return self._session

    def close(self) -> None:
        """Save, end every process and write the result. Closing twice is fine. Ctrl-C waits until that is done."""
        with HeldInterrupt():
            self._close("stopped")

    def _close(self, status: Status) -> None:
        """``status``: of a run that is not complete."""
        if self._session.closed:
            return
        try:
            self._end(status)
        finally:
            self._preemption.end()

    def _end(self, status: Status) -> None:
        if self._session.failure is not None:  # it was raised already, and there is nobody left to save anything
            self._session.finish("failed", self._session.failure)
            return
        try:
            if self._session.finished is None:
                self._session.stop()
            self._session.check_saved()
        except BaseException as error:
            self._session.finish("failed", error)
            raise
        complete = self._session.finished is not None and self._session.finished["complete"]
        self._session.finish("completed" if complete else status)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
