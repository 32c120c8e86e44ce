"""Speaks to Ray for ``RayExecutor``: has it place a host for each trial, and tells how the trials end.

A host is a Ray actor. It runs the trial as the local executor does, as a process that dies with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path
from typing import Any

import msgspec

from whorl.engines.ray.emissary import Emissary, main
from whorl.tuning.executor import END_S, Order
from whorl.tuning.local import LocalExecutor

LOOK_EVERY_S = 0.1
RETRY_S = 0.5
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


class TrialEnvoy(Emissary):
    """Serves one study."""

    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        self._hosts: dict[int, Any] = {}
        self._stopping: set[int] = set()

    def obey(self, kind: str, body: dict[str, Any]) -> None:
        """``start`` a trial, or ``stop`` one."""
        if kind == "start":
            self.spawn(self._run(body))
        else:
            self.spawn(self._stop(body["number"]))

    async def _run(self, body: dict[str, Any]) -> None:
        import ray
        from ray.exceptions import ActorDiedError, RayError

        number = body["number"]
        actor: Any = ray.remote(TrialHost)
        options = {"num_cpus": body["cpus"], "num_gpus": body["gpus"], "resources": body["resources"] or None}
        self._hosts[number] = host = actor.options(
            max_concurrency=10, max_restarts=0, scheduling_strategy="SPREAD", **options
        ).remote([str(path) for path in sys.path], str(Path.cwd()))
        while True:
            try:
                code = await host.run.remote(body["order"])
            except ActorDiedError:
                kind = "ended" if number in self._stopping else "lost"
                self.say(kind, {"number": number, "code": KILLED})
                break
            except RayError:  # it cannot be reached just now
                await asyncio.sleep(RETRY_S)
            else:
                self.say("ended", {"number": number, "code": code})
                break
        self._hosts.pop(number, None)
        with contextlib.suppress(RayError):
            ray.kill(host)

    async def _stop(self, number: int) -> None:
        import ray

        host = self._hosts.get(number)
        if host is None or number in self._stopping:
            return
        self._stopping.add(number)
        with contextlib.suppress(ray.exceptions.RayError, TimeoutError):
            await asyncio.wait_for(asyncio.ensure_future(host.stop.remote()), END_S)

    async def close(self) -> None:
        """Whatever still runs dies with its host."""
        import ray

        for host in self._hosts.values():
            with contextlib.suppress(ray.exceptions.RayError):
                ray.kill(host)


if __name__ == "__main__":
    main(TrialEnvoy)
