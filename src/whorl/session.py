"""A session: a job running on its engine, between the driver's wishes and the roles' reports.

``Trainer`` (the user's own loop) and ``train`` (to the end) both drive one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from whorl.config.actors_schedule import parse_schedule
from whorl.config.layers import dump_toml
from whorl.elastic import Crowd, check_size, most_actors, with_actors
from whorl.engines.contract import Cluster, Engine, Message, Plan, RoleId
from whorl.engines.registry import make_engine
from whorl.envs.same_spaces import keep_spaces
from whorl.errors import CheckpointError, RoleLostError, WhorlError, last_line
from whorl.job import Job
from whorl.journal import Journal
from whorl.policy import TrainedPolicy, newest_policy
from whorl.runs.console import Console
from whorl.runs.directory import RunDirectory
from whorl.runs.files import shown
from whorl.runs.result import Result, Status
from whorl.runs.status import one_line
from whorl.runs.wishes import WishBox
from whorl.signals import HeldInterrupt
from whorl.types import Array
from whorl.workflows.mates import with_fewest, with_mates
from whorl.workflows.registry import get_workflow

FIRST_LEARNER = RoleId("learner", 0)
UNLIMITED = 2**62
ANSWER_TIMEOUT_S = 600.0
"""An update under way is finished first, and may take long."""


def plan_of(job: Job) -> tuple[Plan, Engine]:
    """The wiring of a job and the engine to run it; refused here where the machine cannot run it."""
    plan, engine = _wired(job)
    engine.check(plan)
    return plan, engine


def _wired(job: Job) -> tuple[Plan, Engine]:
    workflow = get_workflow(job.config.workflow.name)
    plan = with_fewest(with_mates(workflow.plan(job), job, workflow), job, workflow)
    return plan, make_engine(job.config.engine, job.config.resources)


class Session:
    """Holds the run directory's lock, the cluster and the journal. ``close`` ends every process, always."""

    def __init__(self, job: Job, directory: RunDirectory, console: Console, *, write_config: bool) -> None:
        # Absolute: an environment in this process may change the working directory.
        self.directory = directory = RunDirectory(directory.path.absolute())
        self.finished: Mapping[str, Any] | None = None
        self.failure: BaseException | None = None
        """What ended the cluster for good: nothing can be asked of it any more."""
        self.asked_to_stop = False
        """By another process: save and end, as after a signal."""
        self._opened = False
        self._limit = 0
        self._wishes: set[str] = set()
        """What the learners were asked for and have not answered yet: a restarted one is asked again."""
        self._save_answer: Mapping[str, Any] | None = None
        self._weights: Array | None = None
        self._newest_save: Path | None = None
        self._result: Result | None = None
        self._lock = directory.lock()
        try:
            self.job = replace(job, run_dir=directory.path, token=self._lock.token)
            self._crowd = Crowd(self.job)
            self._box = WishBox(directory.path)
            self._due = deque(parse_schedule(job.config.resources.actors_schedule))
            self._shares_out = get_workflow(job.config.workflow.name).in_order
            """Another number of actors takes another plan."""
            self._actors_of_next_plan: int | None = None
            plan, engine = plan_of(self._job_with(self._crowd.acting))
            if write_config:
                directory.write_config(dump_toml(self.job.config))
            keep_spaces(directory.env, job.env)
            self.journal = Journal(directory, self.job, console)
            if self.job.lane_map.strands_per_actor > 1:
                self.journal.note(f"slow environments: each of {self.job.lane_map.lanes} goes at its own pace")
            for warning in (*job.warnings, *self._lock.warnings):
                self.journal.warn(warning)
            self.cluster: Cluster = engine.launch(plan, self)
        except BaseException:
            self._lock.close()
            raise

    def _job_with(self, actors: int) -> Job:
        return with_actors(self.job, actors) if self._shares_out else self.job

    # What roles report ------------------------------------------------------------------------------------------------

    def on_message(self, message: Message) -> None:
        """A role's message to the supervisor."""
        body = message.body
        match message.kind:
            case "opened":
                self._opened = True
                self.journal.opened(body, self.cluster)
                self._follow_schedule()
                self.allow(self._limit)  # a restarted learner has forgotten how far it may go
                for kind in sorted(self._wishes):
                    self._ask(kind)
            case "metrics":
                self.journal.record(body)
                self._follow_schedule()
                if self.journal.updates == 1:
                    self.cluster.resources()  # measured once early and once at the end: a role may be gone by then
            case "saved":
                self._newest_save = Path(body["path"])
                self.journal.saved(body)
            case "save_failed":
                self.journal.save_failed(body["text"])
            case "save_answer":
                self._save_answer = body
            case "warning":
                self.journal.warn(body["text"])
            case "left":
                self._go_on_with(int(body["actors"]), body["text"])
            case "lost_env_steps":
                self.journal.lost(body["env_steps"])
            case "weights":
                self._weights = body["buffer"]
            case "finished":
                self.finished = body
                self.cluster.resources()

    def on_restart(self, role: RoleId, incarnation: int, cause: str) -> None:
        """A process was lost and is being replaced."""
        self.journal.restarted(role, incarnation, cause)

    def on_placed(self, table: Sequence[str]) -> None:
        """Which role goes where."""
        self.journal.placed(table)

    # How many act -----------------------------------------------------------------------------------------------------

    def resize(self, actors: int) -> None:
        """Have so many actors act from now on (in exact workflows: from the next update on)."""
        check_size(self.job, actors)
        before = self.actors
        if actors == before:
            return
        if self._shares_out:
            self._actors_of_next_plan = actors
        else:
            self._crowd.become(self.cluster, actors)
        self.journal.note(f"from here on {_actors(actors)}, not {before} (at {self.journal.env_steps} env steps)")

    @property
    def actors(self) -> int:
        """How many act, or are about to."""
        return self._actors_of_next_plan or self._crowd.acting

    def _follow_schedule(self) -> None:
        wanted = None
        while self._due and self._due[0].env_steps <= self.journal.env_steps:
            wanted = self._due.popleft().actors
        if wanted is not None:
            self.resize(wanted)

    def _go_on_with(self, left: int, text: str) -> None:
        """An actor was lost for good. Exact workflows share its environments out over those that are left."""
        if self._shares_out:
            left = self._actors_of_next_plan = most_actors(self.job.config.resources, left)
        self.journal.warn(f"{text}; the run goes on with {_actors(left)}")

    def _hear_wishes(self) -> None:
        wish = self._box.look()
        if wish is None or self.finished is not None:
            return
        if wish.stop:
            self.asked_to_stop = True
            self._box.answer(wish, "the run is saved and stops")
        if wish.actors is None:
            return
        try:
            before = self.actors
            self.resize(wish.actors)
            self._box.answer(wish, f"from now on {_actors(wish.actors)}, not {before}")
        except WhorlError as error:
            self._box.answer(wish, str(error), refused=True)

    def _change_plan(self) -> None:
        """Save between two updates, end every role, and go on with others from there."""
        limit = self._limit
        self._opened = False  # a wish that comes now is part of this change
        self._wish("stop", lambda: False)
        if self.finished is None or self.finished["complete"] or self.finished["save_error"]:
            return
        actors, self._actors_of_next_plan = self._actors_of_next_plan, None
        assert actors is not None
        self.finished = None
        self.journal.replaced(self.cluster)
        self._crowd.acting = actors
        plan, engine = _wired(self._job_with(actors))
        self.cluster = engine.launch(plan, self, instead_of=self.cluster)
        self._limit = limit

    # What the driver wishes -------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Every process has ended."""
        return self._result is not None

    def open(self) -> None:
        """Wait for the learner to say where it begins."""
        self.run(lambda: self._opened)

    def allow(self, updates: int) -> None:
        """Let the run go on to this many updates."""
        self._limit = updates
        if self._opened:
            self.cluster.send(FIRST_LEARNER, "limit", {"updates": updates})

    def run(self, until: Callable[[], bool], timeout_s: float | None = None) -> None:
        """Supervise until the condition holds or the run has finished. The user's Ctrl-C comes out when the run can go
        on or be saved afterwards."""
        with HeldInterrupt() as interrupt:

            def over() -> bool:
                return until() or self.finished is not None or interrupt.came

            def enough() -> bool:
                self.journal.show(self.cluster)
                self._hear_wishes()
                return over() or (self._actors_of_next_plan is not None and self._opened)

            try:
                self.cluster.run(enough, timeout_s)
                while self._actors_of_next_plan is not None and self._opened and not over():
                    self._change_plan()
                    self.cluster.run(enough, timeout_s)
                if timeout_s is None and not over():
                    workflow = self.job.config.workflow.name
                    raise WhorlError(f"{FIRST_LEARNER} of workflow {workflow} ended without having said `finished`")
            except BaseException as error:
                self.failure = error
                raise

    def _ask(self, kind: str) -> None:
        """Send a wish; the first learner decides for all, but none is to wait for slow trajectories meanwhile."""
        for learner in range(1 if kind == "weights" else self.job.lane_map.learners):
            self.cluster.send(RoleId("learner", learner), kind)

    def _wish(self, kind: str, answered: Callable[[], bool]) -> None:
        """Ask the learners for something and wait for the answer, in bounded time."""
        self._wishes.add(kind)
        self._ask(kind)
        self.run(answered, ANSWER_TIMEOUT_S)
        self._wishes.discard(kind)

    def save(self) -> Path:
        """Write a checkpoint now, between updates; a run that is done has saved itself."""
        if self.finished is None:
            self._save_answer = None
            self._wish("save", lambda: self._save_answer is not None)
            if self._save_answer is not None:
                if self._save_answer["error"]:
                    raise CheckpointError(self._save_answer["error"])
                return Path(self._save_answer["path"])
        if self.finished is None:
            raise CheckpointError(f"checkpoint not saved: the learner did not answer within {ANSWER_TIMEOUT_S:g} s")
        self.check_saved()
        assert self._newest_save is not None
        return self._newest_save

    def stop(self) -> None:
        """Save at the boundary and end the learners."""
        self._wish("stop", lambda: False)
        if self.finished is None:
            raise WhorlError(f"the learner did not stop within {ANSWER_TIMEOUT_S:g} s; the last checkpoint is intact")

    def check_saved(self) -> None:
        """A run whose last checkpoint was not saved has failed, however far it came."""
        if self.finished is not None and self.finished["save_error"]:
            path = shown(self.directory.path)
            raise CheckpointError(f"{self.finished['save_error']}; mend that, then `whorl resume {path}` goes on")

    def policy(self) -> TrainedPolicy:
        """The policy as it is now."""
        self._weights = None
        if self.finished is None:
            self._wish("weights", lambda: self._weights is not None)
        if self.finished is not None:
            self.check_saved()
            return newest_policy(self.job, self.directory)
        if self._weights is None:
            raise WhorlError(f"the learner did not send its weights within {ANSWER_TIMEOUT_S:g} s")
        return TrainedPolicy(self.job, self._weights)

    @property
    def status(self) -> Status | None:
        """How it ended; None before."""
        return None if self._result is None else self._result.status

    # How it ends ------------------------------------------------------------------------------------------------------

    def finish(self, status: Status, error: BaseException | None = None) -> Result:
        """End every process and write the result. Finishing twice gives the first result again."""
        if self._result is None:
            try:
                text = None if error is None else one_line(_said_by(error), 500)
                lost = isinstance(error, RoleLostError)
                self._result = self.journal.finish(status, self.finished, self.cluster, text, lost_role=lost)
            finally:
                self.cluster.close()
                self._lock.close()
        return self._result


def _actors(count: int) -> str:
    return f"{count} actor{'s' * (count > 1)}"


def _said_by(error: BaseException) -> str:
    """Our own errors say what to do; of any other it matters where it came from."""
    return str(error) if isinstance(error, WhorlError) and str(error) else last_line(error)
