"""Trials as processes of this machine. They die with the driver, and the roles of each with it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from whorl.cluster.allocation import is_in_job, own_share
from whorl.errors import ConfigError
from whorl.tuning.executor import END_S, Ended, Order
from whorl.tuning.settings import TuneConfig


@dataclass
class _Process:
    order: Order
    slot: int
    popen: subprocess.Popen[bytes]
    pidfd: int
    deadline: float | None = None
    """When it is killed, once it was asked to end."""


class LocalExecutor:
    """One process for each trial, each the leader of a session of its own: Ctrl-C reaches the driver alone."""

    def __init__(self, slots: int, gpus: Sequence[str] = ()) -> None:
        self.slots = slots
        self._gpus = gpus
        """What each slot sees of the GPUs; empty: whatever the driver sees."""
        self._running: dict[int, _Process] = {}

    @classmethod
    def for_settings(cls, settings: TuneConfig, trials: int) -> LocalExecutor:
        """As many slots as were asked for, or as there are CPUs and GPUs for."""
        slots = settings.parallel or max(1, int(own_cpus() / settings.cpus_per_trial + 1e-9))
        gpus: list[str] = []
        if settings.gpus_per_trial:
            gpus = gpu_shares(visible_gpus(), settings.gpus_per_trial)
            if not gpus or len(gpus) < settings.parallel:
                raise ConfigError(
                    f"tune.gpus_per_trial = {settings.gpus_per_trial:g}: there are GPUs for {len(gpus)} trials at a "
                    "time here; ask for fewer GPUs, or for fewer trials at a time (tune.parallel)"
                )
            slots = min(slots, len(gpus))
        return cls(min(slots, trials), gpus)

    @property
    def running(self) -> list[int]:
        """The trials under way."""
        return list(self._running)

    def start(self, order: Order) -> None:
        slot = min(set(range(self.slots)) - {process.slot for process in self._running.values()})
        environment = {**os.environ, "WHORL_TRIAL": str(order.number)}
        environment.setdefault("OPENBLAS_NUM_THREADS", "1")
        if self._gpus:
            environment["CUDA_VISIBLE_DEVICES"] = self._gpus[slot]
        with Path(order.log).open("ab") as log:
            popen = subprocess.Popen(
                # -P: a file of the working directory must not stand in for a module of the library.
                [sys.executable, "-P", "-m", "whorl.tuning.worker", str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        assert popen.stdin is not None
        with contextlib.suppress(BrokenPipeError), popen.stdin:
            popen.stdin.write(msgspec.json.encode(order))
        self._running[order.number] = _Process(order, slot, popen, os.pidfd_open(popen.pid))

    def stop(self, number: int) -> None:
        process = self._running.get(number)
        if process is not None and process.deadline is None:
            process.deadline = time.monotonic() + END_S
            _send(process, signal.SIGTERM)

    def wait(self, timeout_s: float) -> Sequence[Ended]:
        poller = select.poll()
        for process in self._running.values():
            poller.register(process.pidfd, select.POLLIN)
        poller.poll(1000 * timeout_s)
        ended = []
        for number, process in list(self._running.items()):
            if process.deadline is not None and time.monotonic() > process.deadline:
                _send(process, signal.SIGKILL)
            code = process.popen.poll()
            if code is not None:
                self._bury(number)
                ended.append(Ended(number, code))
        return ended

    def close(self) -> None:
        for number in list(self._running):
            self.stop(number)
        while self._running:
            self.wait(1.0)

    def _bury(self, number: int) -> None:
        process = self._running.pop(number)
        os.close(process.pidfd)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.popen.pid, signal.SIGKILL)  # what a user's function may have left in its session


def _send(process: _Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(process.pidfd, number)


def own_cpus() -> int:
    """CPUs of this machine that are ours. Not every batch system keeps a job to those that it was given."""
    cpus = len(os.sched_getaffinity(0))
    return min(cpus, own_share().cpus) if is_in_job() else cpus


def visible_gpus() -> list[str]:
    """Their numbers, as CUDA_VISIBLE_DEVICES names them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [name.strip() for name in named.split(",") if name.strip()]
    import torch

    return [str(index) for index in range(torch.cuda.device_count())]


def gpu_shares(gpus: Sequence[str], per_trial: float) -> list[str]:
    """For each trial at a time the GPUs it sees: whole ones for itself, or a share of one."""
    if per_trial < 1:
        return [gpu for gpu in gpus for _ in range(int(1 / per_trial + 1e-9))]
    width = int(per_trial + 1 - 1e-9)
    return [",".join(gpus[start : start + width]) for start in range(0, len(gpus) - width + 1, width)]
