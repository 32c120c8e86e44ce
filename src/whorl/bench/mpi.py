"""What the mpi engine costs: hand-overs beside raw MPI, waiting, busy targets, slow environments, EXARL's way, and
all-reduce by ranks and threads.

    whorl bench mpi

EXARL exchanges full weights at every environment step, and waits for them; that is `sync` with trajectories of one row.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from whorl.bench import mpi_allreduce
from whorl.bench.report import Measure, Report
from whorl.bench.sides import steady_rate, timed, train_command
from whorl.bench.targets import Found, measure_targets
from whorl.config.schema import EngineConfig
from whorl.engines.contract import BoardSpec, ChannelSpec, Plan, RoleId, RoleSpec
from whorl.engines.mpi.engine import MpiEngine
from whorl.engines.mpi.finding import installed
from whorl.engines.usage import state_and_cpu_s
from whorl.types import Field, Layout

LEARNER = RoleId("learner", 0)
TRAJECTORY = Layout((Field("bytes", (100_000,), "uint8"),))
WEIGHTS = Layout((Field("bytes", (40_000,), "uint8"),))
STEP_S, ACTORS, WARM_UP_S, MEASURED_S = 0.1, 32, 5, 10
BLOCKING_STEPS, ASYNC_STEPS = 3000, 20_000
WAITING, WAITING_S, DEEP_S = 8, 5.0, 2.0
BATCH = 32
_AGENT = ("agent.network.hidden=[64,128]", f"agent.batch_size={BATCH}", "agent.learning_starts=200")
_ROLES = "whorl.bench.mpi_roles"


def _run(mpi: str, plan: Plan) -> dict[str, float]:
    found = Found()
    config = EngineConfig(name="mpi", mpi=mpi)  # type: ignore[arg-type]
    with MpiEngine(config).launch(plan, found) as cluster:
        cluster.run(until=lambda: bool(found.body), timeout_s=120.0)
    return found.body


def measure_operations(mpi: str, repeats: int = 300) -> dict[str, float]:
    """Microseconds of a push and a check of the weights' version, and of the raw operations."""
    actor = RoleId("actor", 0)
    return _run(
        mpi,
        Plan(
            roles=(
                RoleSpec(LEARNER, f"{_ROLES}:take", {"source": "trajectories", "weights": "weights"}),
                RoleSpec(actor, f"{_ROLES}:push", {"out": "trajectories", "weights": "weights"}),
            ),
            job={"repeats": repeats},
            channels=(ChannelSpec("trajectories", TRAJECTORY, 3, actor, (LEARNER,), one_sided=True),),
            boards=(BoardSpec("weights", WEIGHTS, LEARNER, (actor,)),),
        ),
    )


def measure_busy_targets(mpi: str) -> float:
    """The slowest read, in milliseconds, of the windows of actors that are deep in a step."""
    actors = [RoleId("actor", index) for index in range(3)]
    names = [f"window/{actor.index}" for actor in actors]
    return _run(
        mpi,
        Plan(
            roles=(
                RoleSpec(LEARNER, f"{_ROLES}:read_meanwhile", {"windows": tuple(names)}),
                *(
                    RoleSpec(actor, f"{_ROLES}:step_long", {"window": name})
                    for actor, name in zip(actors, names, strict=True)
                ),
            ),
            job={"step_s": DEEP_S},
            boards=tuple(
                BoardSpec(name, TRAJECTORY, actor, (LEARNER,)) for actor, name in zip(actors, names, strict=True)
            ),
        ),
    )["slowest_ms"]


def measure_waiting(mpi: str) -> float:
    """Percent of a core that ranks burn together while they wait."""
    roles = tuple(RoleSpec(RoleId("waiting", index), f"{_ROLES}:wait_long") for index in range(WAITING))
    with MpiEngine(EngineConfig(name="mpi", mpi=mpi)).launch(Plan(roles, {}), Found()) as cluster:  # type: ignore[arg-type]
        cluster.run(until=lambda: False, timeout_s=1.0)

        def used_s() -> float:
            return sum(state_and_cpu_s(pid)[1] for pid in cluster.pids.values())

        before, began = used_s(), time.monotonic()
        cluster.run(until=lambda: False, timeout_s=WAITING_S)
        return 100 * (used_s() - before) / (time.monotonic() - began)


def _trained(runs: Path, mpi: str, agent: str, env: str, *options: str, settings: Sequence[str]) -> Path:
    run_dir = Path(tempfile.mkdtemp(dir=runs)) / "run"
    words = [word for setting in (*settings, f"engine.mpi={mpi}") for word in ("--set", setting)]
    timed(train_command(agent, env, run_dir, 1, "--engine", "mpi", "--quiet", *options, *words))
    return run_dir


def measure_slow(runs: Path, mpi: str, workflow: str) -> float:
    """Percent of ``actors / step time`` that slow environments reach."""
    ideal = ACTORS / STEP_S
    sizes = ("--actors", str(ACTORS), "--envs-per-actor", "1", "--steps", str(int(ideal * (WARM_UP_S + MEASURED_S))))
    settings = ("env.kwargs.env=CartPole-v1", f"env.kwargs.step_time_s={STEP_S}", "agent.rows=5")
    run_dir = _trained(runs, mpi, "impala", "whorl/Slow-v0", "--workflow", workflow, *sizes, settings=settings)
    if workflow == "window":  # learnt from are only those that were there when the learner looked
        result = json.loads((run_dir / "result.json").read_text())
        return 100 * float(result["env_steps_per_s"]) / ideal
    return 100 * steady_rate(run_dir / "metrics.jsonl", int(ideal * WARM_UP_S)) / ideal


def measure_exchange(runs: Path, mpi: str, workflow: str, steps: int, rows: int) -> dict[str, Any]:
    """DQN on CartPole-v1, 3 actors and 1 learner, a gradient step for each row of all 3: what a run reports."""
    sizes = ("--actors", "3", "--envs-per-actor", "1", "--steps", str(steps), "--workflow", workflow)
    settings = (*_AGENT, f"agent.rows={rows}", f"agent.gradient_steps={rows}")
    run_dir = _trained(runs, mpi, "dqn", "CartPole-v1", *sizes, settings=settings)
    result = json.loads((run_dir / "result.json").read_text())
    sent = sum(row["bytes_sent"] for row in result["resources"].values())
    rate = float(result["env_steps_per_s"])
    return {
        "env_steps_per_s": rate,
        "gradient_steps_per_s": rate * rows * result["updates"] / result["env_steps"],
        "bytes": sent / result["transitions"]["collected"],
        "staleness": result["staleness"]["mean"],
        "reuse": BATCH * rows * result["updates"] / result["env_steps"],
    }


def run(repeats: int, directory: Path) -> Report:
    """Everything ``repeats`` times on every MPI there is; the directory is not needed."""
    del directory
    raw, own = "put 100 kB / get 8 B, raw", "push of a trajectory / check of the weights' version"
    push = Measure("one-sided push of 100 kB", "us", "lower", "put and flush of the bytes, then of the slot's word")
    check = Measure("check for new weights", "us", "lower", "get of the version word")
    busy = Measure("slowest read of 3 actors deep in a 2 s step", "ms", "lower", "of windows of 100 kB, for 1 s")
    waiting = Measure(f"{WAITING} waiting ranks", "% of a core", "lower", f"together, over {WAITING_S:g} s")
    slow = Measure("slow environments, share of ideal", "%", "higher", f"{ACTORS} actors, steps of {STEP_S * 1e3:g} ms")
    rates = Measure("DQN on CartPole-v1", "environment steps/s", "higher", "3 actors, 1 learner, MLP 64-128, batch 32")
    updates = Measure("the same: updates", "gradient steps/s", "higher", "one for every 3 environment steps")
    sent = Measure("the same: bytes sent", "bytes per environment step", "lower", "trajectories and weights")
    stale = Measure("the same: staleness", "updates", "lower", "mean")
    reuse = Measure("the same: reuse", "times", "higher", "drawn for each environment step, on average")
    targets = Measure("Bellman targets of 2,048 experiences", "us", "lower", "a value network of 64-128, in numpy")
    allreduce = mpi_allreduce.measures()
    report = Report(
        f"The mpi engine, {repeats} times",
        [push, check, busy, waiting, slow, rates, updates, sent, stale, reuse, targets, *allreduce],
    )
    exarl, ours = "weights at every environment step, blocking", "async"
    ways: dict[str, Callable[[Path, str], dict[str, Any]]] = {
        exarl: lambda runs, mpi: measure_exchange(runs, mpi, "sync", BLOCKING_STEPS, rows=1),
        ours: lambda runs, mpi: measure_exchange(runs, mpi, "async", ASYNC_STEPS, rows=16),
    }
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder)
        for mpi in [name for name in installed() for _ in range(repeats)]:

            def note(measure: Measure, subject: str, value: float, mpi: str = mpi) -> None:
                measure.add(f"{mpi}: {subject}", value)
                print(f"  {mpi}: {subject}: {value:.4g} {measure.unit} ({measure.name})", file=sys.stderr)

            found = measure_operations(mpi)
            note(push, own, found["push"])
            note(push, raw, found["put"])
            note(check, own, found["check"])
            note(check, raw, found["get"])
            note(busy, "read", measure_busy_targets(mpi))
            note(waiting, "waiting", measure_waiting(mpi))
            config = EngineConfig(name="mpi", mpi=mpi)  # type: ignore[arg-type]
            for way, took in measure_targets(config).items():
                note(targets, way, took)
            for way, measured in ways.items():
                figures = measured(runs, mpi)
                for measure, name in zip((rates, updates, sent, stale, reuse), figures, strict=True):
                    note(measure, way, float(figures[name]))
            for workflow in ("async", "queue", "window"):
                note(slow, workflow, measure_slow(runs, mpi, workflow))
            mpi_allreduce.measure(mpi, allreduce, note)
    return report
