"""Speaks to Ray for ``RayExecutor``: has it place a host for each trial, and tells how the trials end.

A host is a Ray actor. It runs the trial as the local executor does, as a process that dies with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from whorl.engines.ray.emissary import Emissary, main
from whorl.engines.ray.private import in_one_line, lost_for_good
from whorl.errors import EXIT_FAILED, EXIT_PREEMPTED
from whorl.tuning.executor import END_S, Order
from whorl.tuning.local import LocalExecutor

LOOK_EVERY_S = 0.1
RETRY_S = 0.5
GRACE_S = 5.0
"""A trial that does not end within ``END_S`` is killed by its host; a host that is silent after that is given up."""
KILLED = -9


class TrialHost:
    """On whichever node Ray put it."""

    def __init__(self, sys_path: list[str], folder: str) -> None:
        sys.path[:] = [*sys_path, *(path for path in sys.path if path not in sys_path)]
        os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys_path if path)
        if Path(folder).is_dir():
            os.chdir(folder)
        for name in [name for name in os.environ if name.startswith("RAY_") and "AUTH" not in name]:
            del os.environ[name]  # said to this worker, and not to a trial that uses Ray itself
        self._executor = LocalExecutor(1)
        self._code: int | None = None

    async def is_here(self) -> None:
        """It has a place."""

    async def run(self, order: bytes) -> int:
        """A trial to its end; returns its exit code. Asked again, it is the same trial."""
        if self._code is None and not self._executor.running:
            self._executor.start(msgspec.json.decode(order, type=Order))
        while self._code is None:
            for ended in self._executor.wait(0.0):
                self._code = ended.code
            await asyncio.sleep(LOOK_EVERY_S)
        return self._code

    async def stop(self) -> None:
        """Ask it to save and to end."""
        for number in self._executor.running:
            self._executor.stop(number)


@dataclass
class _Trial:
    """A trial as the envoy knows it."""

    number: int
    host: Any
    placed: bool = False
    """Ray has found room for its host; before that nothing was begun."""
    stopping: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class TrialEnvoy(Emissary):
    """Serves one study."""

    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        self._trials: dict[int, _Trial] = {}

    def obey(self, kind: str, body: dict[str, Any]) -> None:
        """``start`` a trial, or ``stop`` one."""
        if kind == "start":
            self.spawn(self._run(body))
        else:
            self.spawn(self._stop(body["number"]))

    async def _run(self, body: dict[str, Any]) -> None:
        import ray
        from ray.exceptions import RayError, RayTaskError

        number = body["number"]
        actor: Any = ray.remote(TrialHost)
        options = {"num_cpus": body["cpus"], "num_gpus": body["gpus"], "resources": body["resources"] or None}
        host = actor.options(max_concurrency=10, max_restarts=0, scheduling_strategy="SPREAD", **options).remote(
            [str(path) for path in sys.path], str(Path.cwd())
        )
        trial = self._trials[number] = _Trial(number, host)
        while not trial.ended.is_set():
            try:
                await host.is_here.remote()
                trial.placed = True
                code = await host.run.remote(body["order"])
            except RayTaskError as error:  # of the host itself, which would only raise it again
                self._end(trial, "ended", EXIT_FAILED, in_one_line(error))
            except lost_for_good() as error:
                if trial.stopping:
                    self._end(trial, "ended", EXIT_PREEMPTED)
                else:
                    self._end(trial, "lost", KILLED, in_one_line(error))
            except RayError:  # it cannot be reached just now
                await asyncio.sleep(RETRY_S)
            else:
                self._end(trial, "ended", code)

    async def _stop(self, number: int) -> None:
        trial = self._trials.get(number)
        if trial is None or trial.stopping:
            return
        trial.stopping = True
        if trial.placed:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(END_S + GRACE_S):
                    await self._ask_to_end(trial)
                    await trial.ended.wait()
        # It waits for a place, or cannot be reached: the study does not wait for it, and goes on with it when resumed.
        self._end(trial, "ended", EXIT_PREEMPTED)

    async def _ask_to_end(self, trial: _Trial) -> None:
        from ray.exceptions import RayError

        while not trial.ended.is_set():
            try:
                await trial.host.stop.remote()
            except RayError:
                await asyncio.sleep(RETRY_S)
            else:
                return

    def _end(self, trial: _Trial, kind: str, code: int, error: str = "") -> None:
        """Say how it ended, once, and give back what was set aside for it."""
        import ray

        if trial.ended.is_set():
            return
        trial.ended.set()
        del self._trials[trial.number]
        self.say(kind, {"number": trial.number, "code": code, "error": error})
        with contextlib.suppress(ray.exceptions.RayError):
            ray.kill(trial.host)

    async def close(self) -> None:
        """Whatever still runs dies with its host."""
        import ray

        for trial in self._trials.values():
            with contextlib.suppress(ray.exceptions.RayError):
                ray.kill(trial.host)


if __name__ == "__main__":
    main(TrialEnvoy)
