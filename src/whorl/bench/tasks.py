"""Tasks that only sleep: what an engine adds to them.

72 of one second took 1.0508 s on 72 CPUs of two Cray nodes with Ray, and 72.07 s one after the other.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median

from whorl.config.schema import EngineConfig, Resources
from whorl.engines.contract import Cluster, Message, Plan, Role, RoleGenerator, RoleId, RoleSpec
from whorl.engines.registry import make_engine
from whorl.errors import WhorlError

TIMEOUT_S = 900.0


def sleep(role: Role) -> RoleGenerator:
    """Say that it is there; then for each message sleep, and say so."""
    role.line.send("ready")
    for _ in range(role.job["rounds"]):
        yield from role.line.expect("go")
        time.sleep(role.job["task_s"])
        role.line.send("done")
    yield from role.line.expect("leave")


class _Heard:
    """Counts what was said."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def on_message(self, message: Message) -> None:
        self.counts[message.kind] = self.counts.get(message.kind, 0) + 1

    def on_restart(self, role: RoleId, incarnation: int, cause: str) -> None:
        raise WhorlError(f"{role} was lost, now incarnation {incarnation}: {cause}")

    def on_placed(self, table: Sequence[str]) -> None:
        """Nobody asks."""


def measure_tasks(engine: str, tasks: int, task_s: float, rounds: int) -> list[float]:
    """Seconds from the word "go" to the last task's end, once everybody is there; each round."""
    roles = [RoleId("actor", index) for index in range(tasks)]
    plan = Plan(
        roles=tuple(RoleSpec(role, f"{__name__}:sleep", on_loss="restart_all") for role in roles),
        job={"rounds": rounds, "task_s": task_s},
    )
    heard, took = _Heard(), []
    with make_engine(EngineConfig(name=engine), Resources(actors=tasks)).launch(plan, heard) as cluster:
        _wait(cluster, heard, "ready", tasks)
        for number in range(1, rounds + 1):
            begun = time.perf_counter()
            for role in reversed(roles):  # on mpi the first one's rank passes on the driver's words, until it sleeps
                cluster.send(role, "go")
            _wait(cluster, heard, "done", number * tasks)
            took.append(time.perf_counter() - begun)
        for role in roles:
            cluster.send(role, "leave")
    return took


def _wait(cluster: Cluster, heard: _Heard, kind: str, count: int) -> None:
    cluster.run(until=lambda: heard.counts.get(kind, 0) >= count, timeout_s=TIMEOUT_S)
    if heard.counts.get(kind, 0) < count:
        raise WhorlError(f"{heard.counts.get(kind, 0)} of {count} tasks said {kind} within {TIMEOUT_S:g} s")


def probe(engine: str, tasks: int, task_s: float, rounds: int) -> dict[str, float]:
    """As a cell of the study ``tasks``. In one thread tasks come one after the other: that is their ideal there."""
    seconds = median(measure_tasks(engine, tasks, task_s, rounds))
    ideal_s = task_s * (tasks if engine == "inline" else 1)
    return {"seconds": seconds, "ideal_s": ideal_s, "percent": 100 * ideal_s / seconds}
