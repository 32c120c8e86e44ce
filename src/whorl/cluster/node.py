"""What runs on each node of a job on engine ``ray``: the head starts the cluster and the training, the others join.

Which one it is follows from the allocation: the first node is the head. Warning signals are for the training alone;
nodes stay until it has ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from whorl.cluster.addresses import answers, head_address, wait_until_reachable
from whorl.cluster.allocation import find_allocation, node_index, own_share
from whorl.cluster.meeting import JOINED, LOOK_EVERY_S, Meeting, is_claimed
from whorl.cluster.orders import HEAD_RESOURCE, WORKER_RESOURCE
from whorl.cluster.restarts import lost_nodes, requeue
from whorl.engines.local.nursery import STOP_SIGNALS
from whorl.engines.local.spawner import stop_signals_blocked
from whorl.engines.ray.private import ADDRESS, TOKEN_FILE, make_token, short_folder
from whorl.errors import EXIT_BAD_INPUT, EXIT_DONE, EXIT_FAILED, EXIT_PREEMPTED, BadInputError, WhorlError
from whorl.runs.status import one_line

REACH_S = 15.0
_BATCH_GONE_S, _ASK_EVERY_S = 900.0, 15.0
"""Slurm finds a node out after its SlurmdTimeout, which is 5 minutes unless it was told otherwise."""
_TURN_S = 5.0
"""How long each node gives the one before it to have the job started again."""
_PLENTY = 10_000.0
_STORE_SHARE, _MOST_STORE_BYTES, _LEAST_STORE_BYTES = 0.25, 4 * 2**30, 80 * 2**20
_RANK_NAMES = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "PMI_RANK", "PMI_SIZE", "PMIX_RANK")


@dataclass(frozen=True)
class NodeOrder:
    """What every node is told."""

    run_dir: Path
    key: str
    nodes: int
    towards: str
    """Another node of the job, for the way to it; empty where there is none. A node may not know the others itself:
    what PBS starts on it does not see PBS_NODEFILE everywhere."""
    interface: str
    join_timeout_s: float
    heads: int
    """The first so many nodes are for learners; 0: all are alike."""
    guest: bool
    """A node of another job that joins this one's run, and may leave it."""
    words: list[str]
    """The training: ``train ...`` or ``resume ...``."""


class Node:
    """One node, from its start to the end of the training."""

    def __init__(self, order: NodeOrder) -> None:
        self._order = order
        self._meeting = Meeting(order.run_dir, order.key)
        self._index = node_index()
        self._is_head = self._index == 0 and not order.guest
        self._end = time.monotonic() + order.join_timeout_s
        self._warned = self._has_joined = False
        self._training: subprocess.Popen[bytes] | None = None
        self._ray: subprocess.Popen[str] | None = None
        self._folder = Path(tempfile.mkdtemp(prefix="whorl-", dir=short_folder()))

    def run(self) -> int:
        """Returns the exit code: of the head the training's."""
        for number in STOP_SIGNALS:
            signal.signal(number, self._on_signal)
        try:
            return self._lead() if self._is_head else self._follow()
        except WhorlError as error:
            said = one_line(str(error), 500)  # Ray's own words may be many lines
            if not self._is_told_by_head():
                where = f"node {self._index} ({socket.gethostname()})"
                print(f"whorl: error: {where}: {said}", file=sys.stderr, flush=True)
            if not self._order.guest:  # the numbers of the host job's nodes are not a guest's
                self._meeting.report(self._index, f"{error.exit_code} {said}")
            if self._is_head:
                self._meeting.say_exit(error.exit_code)
            return error.exit_code
        finally:
            self._end_ray()
            shutil.rmtree(self._folder, ignore_errors=True)

    def _is_told_by_head(self) -> bool:
        """A node that cannot join tells the head, which says it; or the head has ended before, and said why. Once is
        enough."""
        if self._is_head or self._order.guest or self._has_joined:
            return False
        return self._meeting.is_published() or self._meeting.exit_code() is not None

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._warned = True
        if self._training is not None:
            with contextlib.suppress(ProcessLookupError):
                self._training.send_signal(signal.SIGTERM)

    # The head

    def _lead(self) -> int:
        make_token(self._meeting.token_file)
        others = [self._order.towards] if self._order.towards else []
        address = self._start_ray(head_address(self._order.interface, others), "")
        self._meeting.publish(address)
        self._await_others()
        if self._warned:
            self._meeting.say_exit(EXIT_PREEMPTED)
            return EXIT_PREEMPTED
        environ = {name: text for name, text in os.environ.items() if name not in _RANK_NAMES}
        environ |= {ADDRESS: address, TOKEN_FILE: str(self._meeting.token_file)}
        self._training = subprocess.Popen([sys.executable, "-m", "whorl", *self._order.words], env=environ)
        if self._warned:
            self._training.send_signal(signal.SIGTERM)
        code = self._exit_code(self._training.wait())
        self._meeting.say_exit(code)
        return code

    def _exit_code(self, status: int) -> int:
        """A training that was still starting dies of the warning that it would have noted later. It may be told, and
        be dead, before this process is told."""
        if status >= 0:
            return status
        return EXIT_PREEMPTED if self._warned or -status in STOP_SIGNALS else EXIT_FAILED

    def _await_others(self) -> None:
        waiting = set(range(1, self._order.nodes))
        while waiting and not self._warned:
            for node in sorted(waiting):
                heard = self._meeting.heard_of(node)
                if heard == JOINED:
                    waiting.discard(node)
                elif heard:
                    code, _, reason = heard.partition(" ")
                    kind = BadInputError if code == str(EXIT_BAD_INPUT) else WhorlError
                    raise kind(f"node {node} could not join: {reason}")
            if waiting and time.monotonic() > self._end:
                raise WhorlError(
                    f"node {min(waiting)} did not join within {self._order.join_timeout_s:g} s: look at its log, or "
                    "raise --join-timeout"
                )
            time.sleep(LOOK_EVERY_S)

    # The others

    def _follow(self) -> int:
        address = self._meeting.address(self._end)
        # It listens already: what does not answer now will not. The head is to hear of it before it gives up itself.
        ip = wait_until_reachable(address, self._order.interface, min(self._end, time.monotonic() + REACH_S))
        self._start_ray(ip, address)
        self._has_joined = True
        if not self._order.guest:
            self._meeting.report(self._index, JOINED)
        print(f"whorl: node {self._index} ({socket.gethostname()}) has joined {address}", flush=True)
        assert self._ray is not None
        while self._meeting.is_going_on():
            if self._order.guest and self._warned:
                break
            if self._ray.poll() is not None:
                self._have_it_come_back()
                raise WhorlError("lost the cluster: its head is gone, or this node's Ray has ended")
            time.sleep(LOOK_EVERY_S)
        return EXIT_DONE

    def _have_it_come_back(self) -> None:
        """The first node may be lost, and with it the batch process, which has jobs started again otherwise. Slurm was
        told not to end the job for a lost node, and would let it stand: the second node says it instead, or where that
        is lost too, the third. A file system may keep a lost node's locks, and one that knows those of its own node
        alone shows none of a healthy one: where there is a lock Slurm's own word is waited for, and where there is
        none the head must not answer either."""
        allocation = find_allocation(system="slurm")
        if self._order.guest or allocation is None:
            return
        begun = asked = time.monotonic()
        turn: float | None = None
        while self._meeting.is_going_on() and (now := time.monotonic()) < begun + _BATCH_GONE_S:
            if turn is None:
                gone = not is_claimed(self._order.run_dir) and not answers(self._meeting.address(now))
                if not gone and now > asked + _ASK_EVERY_S:
                    asked, gone = now, bool(lost_nodes(allocation.nodes[:1]))
                turn = now + (self._index - 1) * _TURN_S if gone else None
            if turn is not None and now >= turn:
                if requeue(allocation.job):
                    print("whorl: the first node was lost: the run goes on from its last checkpoint", flush=True)
                return
            time.sleep(LOOK_EVERY_S)

    # Ray

    def _start_ray(self, ip: str, join: str) -> str:
        """Returns the head's address."""
        share = own_share()
        store = max(_LEAST_STORE_BYTES, min(int(share.memory_bytes * _STORE_SHARE), _MOST_STORE_BYTES))
        order = {
            "ip": ip,
            "join": join,
            "token_file": str(self._meeting.token_file),
            "folder": str(self._folder / "r"),
            "cpus": share.cpus,
            "gpus": share.gpus,
            "resources": self._kind(),
            "memory_bytes": max(2**20, share.memory_bytes - store),
            "store_bytes": store,
        }
        # A warning would end it before it has blocked them itself.
        with stop_signals_blocked(), (self._folder / "ray_node.err").open("wb") as log:
            self._ray = subprocess.Popen(
                [sys.executable, "-m", "whorl.cluster.ray_node"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        assert self._ray.stdin is not None
        assert self._ray.stdout is not None
        self._ray.stdin.write(json.dumps(order) + "\n")
        self._ray.stdin.flush()
        left_s = max(0.0, self._end - time.monotonic())
        if not select.select([self._ray.stdout], [], [], left_s)[0]:
            raise WhorlError(f"Ray did not start here within {self._order.join_timeout_s:g} s: raise --join-timeout")
        said: dict[str, Any] = json.loads(self._ray.stdout.readline() or "{}")
        if "address" not in said:
            raise WhorlError(f"Ray could not be started here: {said.get('error', 'it ended without a word')}")
        return str(said["address"])

    def _kind(self) -> dict[str, float]:
        if not self._order.heads:
            return {}
        is_head = self._index < self._order.heads and not self._order.guest
        return {HEAD_RESOURCE if is_head else WORKER_RESOURCE: _PLENTY}

    def _end_ray(self) -> None:
        if self._ray is None:
            return
        assert self._ray.stdin is not None
        self._ray.stdin.close()
        try:
            self._ray.wait(10)
        except subprocess.TimeoutExpired:
            self._ray.kill()
            self._ray.wait()
        self._collect_logs()

    def _collect_logs(self) -> None:
        """Ray's own, of this node, beside those of the roles."""
        target = self._order.run_dir / "logs" / "ray" / self._log_name()
        with contextlib.suppress(OSError):
            for log in [*self._folder.glob("r/session_2*/logs/*.*"), self._folder / "ray_node.err"]:
                with contextlib.suppress(OSError):  # Ray's last processes may still be tidying up: the others are there
                    if log.is_file() and log.stat().st_size:
                        target.mkdir(parents=True, exist_ok=True)
                        shutil.copyfile(log, target / log.name)

    def _log_name(self) -> str:
        """Several jobs may be guests of one run, each with a node 0."""
        if not self._order.guest:
            return f"{self._order.key}-{self._index}"
        allocation = find_allocation()
        return f"{self._order.key}-guest-{allocation.job if allocation else os.getpid()}-{self._index}"
