"""What Whorl costs before it does anything useful: start-up time, memory of an actor, idle environment processes.

- *start*: fresh processes, from their start to their end.
- *actor*: proportional memory of an actor process of a small network, while it trains.
- *idle*: a real run with 256 environments in processes of their own, all inside one very long step; what the whole
  tree of processes (supervisor, learner, actors and environments) burns meanwhile, in shares of a core.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from whorl.bench.report import Measure, Report
from whorl.engines.usage import proportional_memory_bytes
from whorl.errors import WhorlError

IDLE_ENVS = 256
IDLE_AFTER_S, IDLE_WATCH_S = 15.0, 20.0
QUICK_STEPS = 24
"""Of every idle environment, before they idle."""
SETTLE_S = 2.0
START_TIMEOUT_S = 300.0
MIB = 2**20

Family = dict[int, str]
"""Processes of a run: pid to name (``actor-0``)."""


def run(repeats: int, directory: Path) -> Report:
    """Measure everything ``repeats`` times; the directory is not needed."""
    del directory
    start = Measure("start", "s", "lower", "a fresh process from its start to its end")
    actor = Measure("memory of an actor", "MiB", "lower", "proportional set size while PPO trains on CartPole-v1")
    idle = Measure(
        f"{IDLE_ENVS} idle environment processes",
        "% of a core",
        "lower",
        f"CPU time of the whole run over {IDLE_WATCH_S:.0f} s in which every environment is inside one long step",
    )
    for _ in range(repeats):
        start.add("python -c pass", _seconds("-c", "pass"))
        start.add("import whorl", _seconds("-c", "import whorl"))
        start.add("whorl --help", _seconds("-m", "whorl", "--help"))
        actor.add("whorl", _actor_mib())
        idle.add("whorl", _idle_percent())
    return Report(f"Footprint, {repeats} times each", [start, actor, idle])


def _seconds(*arguments: str) -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def _actor_mib() -> float:
    """The mean of two actors."""

    def measure(family: Family) -> float:
        actors = [pid for pid, name in family.items() if name.startswith("actor-")]
        return sum(map(proportional_memory_bytes, actors)) / len(actors) / MIB

    return _while_running(("ppo", "CartPole-v1", "--actors", "2", "--steps", "100000000"), "actor-", 2, measure)


def _idle_percent() -> float:
    def measure(family: Family) -> float:
        time.sleep(IDLE_AFTER_S)  # until every one is inside its long step
        before, begin = _cpu_s(family), time.monotonic()
        time.sleep(IDLE_WATCH_S)
        return 100 * (_cpu_s(family) - before) / (time.monotonic() - begin)

    slow = ("--set", "env.step_timeout_s=7200", "--set", "env.hosting=process")
    share = ("--actors", "4", "--envs-per-actor", str(IDLE_ENVS // 4))
    return _while_running(("ppo", f"{__name__}:Idle-v0", *share, *slow), "env-", IDLE_ENVS, measure)


class Idle(gymnasium.Env[NDArray[np.float32], np.int64]):
    """Quick enough to be looked over before the run; then every step takes an hour."""

    observation_space = gymnasium.spaces.Box(0, 1, (4,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin quickly."""
        super().reset(seed=seed, options=options)
        self._steps = 0
        return np.zeros(4, np.float32), {}

    def step(self, action: np.int64) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Sleep, but for the first steps."""
        del action
        self._steps += 1
        if self._steps > QUICK_STEPS:
            time.sleep(3600)
        return np.zeros(4, np.float32), 0.0, False, False, {}


gymnasium.register("Idle-v0", entry_point=f"{__name__}:Idle")


def _while_running(arguments: tuple[str, ...], kind: str, count: int, measure: Callable[[Family], float]) -> float:
    """Measure a run once ``count`` processes of a kind are up."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "whorl",
            "train",
            *arguments,
            "--engine",
            "local",
            "--run-dir",
            f"{folder}/run",
        ]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                return measure(_settled(process, kind, count))
            finally:
                process.kill()  # the roles see that their supervisor is gone, and end


def _settled(process: subprocess.Popen[bytes], kind: str, count: int) -> Family:
    """The processes of a run once there are enough and none has come for a while."""
    known: Family = {}
    deadline = time.monotonic() + START_TIMEOUT_S
    since = time.monotonic()
    while time.monotonic() < deadline and process.poll() is None:
        family = _family(process.pid)
        if family != known:
            known, since = family, time.monotonic()
        if sum(name.startswith(kind) for name in family.values()) >= count and time.monotonic() - since > SETTLE_S:
            return family
        time.sleep(0.2)
    raise WhorlError(f"{count} processes {kind}... did not come up within {START_TIMEOUT_S:.0f} s")


def _family(pid: int) -> Family:
    """A process and all its descendants."""
    found: Family = {}
    try:
        found[pid] = Path(f"/proc/{pid}/comm").read_text().strip()
        children = [task.joinpath("children").read_text().split() for task in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return found
    for child in (int(word) for words in children for word in words):
        found |= _family(child)
    return found


def _cpu_s(family: Family) -> float:
    """CPU seconds of processes with all their threads, to the nanosecond (``stat`` counts in hundredths)."""
    threads = (task for pid in family for task in Path(f"/proc/{pid}/task").iterdir())
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9
