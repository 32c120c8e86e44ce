"""``allreduce`` on MPI: PPO whose ranks partition each batch, go backward on their parts, sum the gradients and step.

The same environments and shards on 1, 2 and 4 ranks come to the same weights. On few cores ranks compete with threads,
so both are varied; how it scales where cores are not the limit shows with environments whose steps only take time.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from whorl.bench.report import Measure
from whorl.bench.sides import steady_rate, timed, train_command
from whorl.errors import WhorlError

RANKS, THREADS = (1, 2, 4), (1, 2)
LANES, SHARDS, ROWS = 8, 4, 64
STEP_S = 0.010
REAL_STEPS, SLOW_STEPS = 60_000, 4_096
_UPDATE = LANES * ROWS
_SETTINGS = (f"agent.rows={ROWS}", "agent.epochs=4", "agent.minibatches=4", "agent.network.hidden=[256,256]")

Note = Callable[[Measure, str, float], None]


def measures() -> list[Measure]:
    """Real environments by ranks and threads, and emulated ones by ranks."""
    how = f"PPO on CartPole-v1, {LANES} environments, {SHARDS} shards, MLP 256-256"
    emulated = f"environments whose steps take {STEP_S * 1e3:g} ms, one thread each"
    return [
        Measure("all-reduce PPO, ranks x threads", "env steps/s", "higher", how),
        Measure("all-reduce PPO, emulated environment time", "env steps/s", "higher", emulated),
    ]


def measure(mpi: str, into: list[Measure], note: Note) -> None:
    """Everything once; refuses to go on where ranks do not come to the same weights."""
    weights: dict[int, set[str]] = {}
    real, emulated = into
    with tempfile.TemporaryDirectory() as runs:
        for threads in THREADS:
            for ranks in RANKS:
                rate, hashed = _run(Path(runs), mpi, ranks, threads, "CartPole-v1", REAL_STEPS, ())
                note(real, f"{ranks} x {threads}", rate)
                weights.setdefault(threads, set()).add(hashed)
        for ranks in RANKS:
            slow = ("env.kwargs.env=CartPole-v1", f"env.kwargs.step_time_s={STEP_S}", "env.hosting=inside")
            rate, _ = _run(Path(runs), mpi, ranks, 1, "whorl/Slow-v0", SLOW_STEPS, slow)
            note(emulated, f"{ranks} rank{'s' * (ranks > 1)}", rate)
    for threads, found in weights.items():
        if len(found) > 1:
            raise WhorlError(
                f"allreduce on {RANKS} ranks with {threads} threads came to {len(found)} different weights"
            )


def _run(
    runs: Path, mpi: str, ranks: int, threads: int, env: str, steps: int, settings: Sequence[str]
) -> tuple[float, str]:
    """Environment steps per second, and the hash of the weights."""
    run_dir = Path(tempfile.mkdtemp(dir=runs)) / "run"
    sizes = {"actors": ranks, "learners": ranks, "envs-per-actor": LANES // ranks, "learner-threads": threads}
    options = [word for name, value in sizes.items() for word in (f"--{name}", str(value))]
    more = (*_SETTINGS, *settings, f"resources.shards={SHARDS}", f"engine.mpi={mpi}")
    options += [word for setting in more for word in ("--set", setting)]
    common = ("--engine", "mpi", "--workflow", "allreduce", "--quiet", "--steps", str(steps))
    timed(train_command("ppo", env, run_dir, 1, *common, *options))
    hashed = str(json.loads((run_dir / "result.json").read_text())["weights_sha256"])
    return steady_rate(run_dir / "metrics.jsonl", min(2 * _UPDATE, steps // 4)), hashed
