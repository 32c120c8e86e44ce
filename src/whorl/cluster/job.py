"""The batch process of a job, on its first node: starts the nodes or ranks, watches, and ends with the training's code.

A warning (SIGUSR1 ahead of the time limit, SIGTERM) is passed on to the run as a wish: it is saved and stops with 75.
A job whose time is nearly over before its run has begun acts as if warned. Then the job is requeued, which starts this
again, and the run goes on. To leave instead would count as the job's success, and Slurm would not start it again.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from types import FrameType

from whorl.cluster.addresses import address_of
from whorl.cluster.allocation import find_allocation, is_first_node
from whorl.cluster.launching import alone, as_ranks, on_every_node, start
from whorl.cluster.meeting import Meeting, claim, current_meeting
from whorl.cluster.orders import ALONE, MPI, JobOrder
from whorl.cluster.request import WARN_S
from whorl.cluster.restarts import is_one_silent, lost_nodes, note_start, requeue
from whorl.cluster.timing import BEGAN, TimeLimit
from whorl.engines.local.nursery import STOP_SIGNALS
from whorl.errors import EXIT_DONE, EXIT_FAILED, EXIT_PREEMPTED, BadInputError, WhorlError
from whorl.runs.directory import clear_unbegun
from whorl.runs.lock import is_held
from whorl.runs.result import Result
from whorl.runs.wishes import ask
from whorl.signals import WARNINGS

_LOOK_EVERY_S = 0.2
_ANSWER_S = 5.0
_KILLED_S = 120.0
_LINGERS_S, _ENDS_S = 60.0, 15.0
"""How long a step may take to end after its training has, and after it was told to: launchers wait for nodes that are
lost."""
_WARNED_TO_DEATH = {-number: number for number in WARNINGS} | {128 + number: number for number in WARNINGS}
"""How a step ends, as our child and in the words of launchers, where the batch system's warning came to it alone and
before anything in it had its handlers: in the prologue, or while Python was importing."""
_MORE_TRIES = 4
"""Of ranks that do not find each other under srun's pmi2 (``whorl.engines.mpi.beginning`` says why). Another start has
another memory."""


class BatchJob:
    """One start of a job."""

    def __init__(self, order: JobOrder) -> None:
        allocation = find_allocation(system=order.system)
        if allocation is None:
            raise BadInputError(f"not inside a job of {order.system}: submit the script, do not run it")
        self._order, self._allocation = order, allocation
        self._warned = self._heard = self._has_begun = False
        self._step: subprocess.Popen[bytes] | None = None

    def run(self) -> int:
        """To the end; returns the exit code."""
        for number in STOP_SIGNALS:
            signal.signal(number, self._on_signal)
        os.environ.setdefault(BEGAN, str(int(time.time())))
        if self._order.guest:
            return self._visit()
        with claim(self._order.run_dir, self._number if os.environ.get("SLURM_RESTART_COUNT", "0") > "0" else ""):
            return self._host()

    @property
    def _number(self) -> str:
        return self._allocation.job.partition(".")[0]

    def _host(self) -> int:
        while True:
            code, began = self._train()
            lost = ""
            if self._order.requeue and self._allocation.system == "slurm" and code in (EXIT_FAILED, None):
                lost = "" if self._warned else self._lost()
            if lost or not (began and self._has_lost_a_rank(code)):
                break
            print("whorl: a rank was lost: the run goes on from its last checkpoint", flush=True)
        if code is None:
            code = EXIT_PREEMPTED if self._warned else EXIT_FAILED
        if self._order.requeue and self._allocation.system == "slurm":
            if lost:
                print(f"whorl: {lost}: the run goes on from its last checkpoint", flush=True)
            if lost or code == EXIT_PREEMPTED:
                self._come_back()
        return code

    def _train(self) -> tuple[int | None, bool]:
        """One start: the training's exit code, if it came to one, and whether it had begun (on ``mpi``)."""
        meeting = Meeting(self._order.run_dir, f"{self._number}-{secrets.token_hex(4)}")
        meeting.open()
        try:
            words = self._training()
            note_start(self._order.run_dir, self._order.restarts)
            code = self._attend(self._launch(meeting, words), meeting)
            for _ in range(_MORE_TRIES if self._order.launch == MPI else 0):
                if code is not None or self._warned or meeting.mpi_mark.exists():
                    break
                print("whorl: MPI did not come up; it is tried once more", file=sys.stderr, flush=True)
                code = self._attend(self._launch(meeting, self._training()), meeting)
            return code, meeting.mpi_mark.exists()
        finally:
            meeting.close()

    def _has_lost_a_rank(self, code: int | None) -> bool:
        """An MPI job cannot lose a rank and live; with its nodes all there it can go on at once. (The driver dies with
        the first rank, and leaves no exit code.)"""
        if self._order.launch != MPI or self._warned:
            return False
        if code is None:
            return True
        with contextlib.suppress(WhorlError):
            return code == EXIT_FAILED and Result.read(self._order.run_dir / "result.json").lost_role
        return False

    def _lost(self) -> str:
        """Which node was lost; nothing where all are there."""
        nodes = self._allocation.nodes
        if lost := lost_nodes(nodes):
            return f"{', '.join(lost)} was lost"
        return "a node does not answer" if len(nodes) > 1 and is_one_silent(self._allocation) else ""

    def _training(self) -> list[str]:
        """``train`` at the first start, ``resume`` at every other; ``tune`` goes on with a study by itself."""
        order, run_dir = self._order, self._order.run_dir
        if order.words[0] in ("resume", "tune"):
            return list(order.words)
        mark = run_dir / "job" / "id"
        mine = not mark.exists() or mark.read_text() == order.id
        if not mine:
            raise BadInputError(f"{run_dir}: holds the run of another job; give another --run-dir")
        if (run_dir / "config.toml").is_file():
            if not mark.exists():
                raise BadInputError(f"{run_dir}: holds a run already; `-- resume {run_dir}` goes on with it")
            return ["resume", str(run_dir)]
        mark.write_text(order.id)
        clear_unbegun(run_dir)
        return [*order.words, "--run-dir", str(run_dir)]

    def _launch(self, meeting: Meeting, words: list[str]) -> list[str]:
        order, allocation = self._order, self._allocation
        if order.interface and is_first_node(allocation):
            address_of(order.interface)  # refused here, once, and not by every node or rank
        of_run = ["--run-dir", str(order.run_dir), "--key", meeting.key]
        if order.launch == ALONE:
            return alone(allocation, order, ["-m", "whorl.cluster", "first", *of_run, "--", *words])
        if order.launch == MPI:
            command = ["-m", "whorl.cluster", "first", *of_run, "--interface", order.interface, "--", *words]
            return as_ranks(allocation, order, self._ranks(words), command)
        return on_every_node(allocation, order, self._node_words(meeting, words))

    def _node_words(self, meeting: Meeting, words: list[str]) -> list[str]:
        order, nodes = self._order, self._allocation.nodes
        numbers = ["--nodes", str(len(nodes)), "--heads", str(order.heads), "--towards", nodes[1] if nodes[1:] else ""]
        limits = ["--interface", order.interface, "--join-timeout", str(order.join_timeout_s)]
        guest = ["--guest"] if order.guest else []
        of_run = ["--run-dir", str(order.run_dir), "--key", meeting.key]
        return ["-m", "whorl.cluster", "node", *of_run, *numbers, *limits, *guest, "--", *words]

    def _ranks(self, words: list[str]) -> int:
        """How many roles the plan has: found out as the training itself would, in a process of its own."""
        asked = [sys.executable, "-m", "whorl", "slurm", "roles", "--", *words]
        done = subprocess.run(asked, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.returncode)
        return int(done.stdout.split()[-1])

    # While it runs

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._warned = True

    def _attend(self, command: list[str], meeting: Meeting) -> int | None:
        """Watch the step to its end; returns the training's exit code, None where it did not come to one."""
        self._step = step = start(command)
        limit = TimeLimit(WARN_S)
        due: list[tuple[float, Callable[[], None]]] = []
        while step.poll() is None:
            if not due and meeting.exit_code() is not None:
                end = time.monotonic() + _LINGERS_S
                due = [(end, step.terminate), (end + _ENDS_S, step.kill)]
            if due and time.monotonic() > due[0][0]:
                due.pop(0)[1]()
            # A run that has begun knows itself when its time is over, and how long it needs to save.
            if not self._warned and not is_held(self._order.run_dir / "lock") and limit.is_near():
                self._warned = True
            if self._warned and not self._heard:
                self._pass_on()
            time.sleep(_LOOK_EVERY_S)
        code = meeting.exit_code()
        if code is None and not self._warned:
            if (by := _WARNED_TO_DEATH.get(step.returncode)) is not None:
                self._warned = True
                print(f"whorl: warned: the step was ended by {by.name} before the training listened", flush=True)
            else:
                print(f"whorl: error: the step ended with {step.returncode} before the training did", file=sys.stderr)
        return code

    def _pass_on(self) -> None:
        """Tell the run; one that has not begun has nothing to save."""
        assert self._step is not None
        run_dir = self._order.run_dir
        if not is_held(run_dir / "lock"):
            self._heard = True
            if not self._has_begun:
                self._step.terminate()
            return
        self._has_begun = True  # and was warned by the batch system, too, where it ends without an answer
        try:
            print(f"whorl: warned: {ask(run_dir, stop=True, timeout_s=_ANSWER_S)}", flush=True)
            self._heard = True
        except WhorlError:
            time.sleep(_LOOK_EVERY_S)  # it is just beginning, or just ending: asked again

    def _come_back(self) -> None:
        """Requeue, and wait to be ended."""
        self._warned = False
        if not requeue(self._allocation.job):
            return
        print("whorl: requeued: the run goes on when the job is started again", flush=True)
        end = time.monotonic() + _KILLED_S
        while time.monotonic() < end and not self._warned:
            time.sleep(_LOOK_EVERY_S)

    # Nodes for another job's run

    def _visit(self) -> int:
        meeting = current_meeting(self._order.run_dir)
        step = start(on_every_node(self._allocation, self._order, self._node_words(meeting, ["none"])))
        while step.poll() is None:
            time.sleep(_LOOK_EVERY_S)
        return EXIT_DONE if self._warned else step.returncode
