"""Slow environments: how near each workflow comes to the most that N environments can give, N over the step time.

    whorl bench slow

``whorl/Slow-v0`` around CartPole-v1 with steps of 100 ms in processes of their own; the learner learns from everything.
An asynchronous workflow can reach N / 0.1 s. In ``sync`` everybody waits for the slowest of each batch: its bound is
E[S_T] / E[max over N of S_T] of that, S_T the sum of the step times in the T rows of a trajectory; rows in which an
episode begins take none. It is run with an agent that learns quickly (a2c), since there everybody waits for learning as
well. Stable-Baselines3 waits for the slowest environment at every single step; it keeps a process with PyTorch for
each, so that it is run with 16 and 64.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from whorl.bench.peers import peer_python
from whorl.bench.report import Measure, Report
from whorl.bench.sides import SB3, SB3_VERSION, steady_rate, timed, train_command
from whorl.envs.library.slow import SLOW_SHARE

STEP_S = 0.1
ROWS = 32
ENVS_PER_ACTOR = 32
WARM_UP_S, MEASURED_S = 7.0, 26.0
SIZES = (16, 64, 256)
MOST_OF_SB3 = 64
STEP_TIMES = {
    "constant": ("constant", 0.0),
    "lognormal, cv 50 %": ("lognormal", 0.5),
    "90/10": ("mixture", 1.42),
}
AGENTS = {"sync": "a2c", "async": "impala", "queue": "impala", "seed": "impala", "replay": "dqn"}
REPLAY_SETTINGS = ("agent.learning_starts=500", "agent.batch_size=64", "agent.gradient_steps=4")


@dataclass(frozen=True)
class Case:
    """One run."""

    workflow: str
    envs: int
    times: str

    def __str__(self) -> str:
        return f"{self.workflow}, {self.envs}, {self.times}"


def cases() -> Iterator[Case]:
    """Every workflow with every number of environments and every kind of step times."""
    for times in STEP_TIMES:
        for envs in SIZES:
            for workflow in AGENTS:
                yield Case(workflow, envs, times)


def run(repeats: int, directory: Path) -> Report:
    """Every case ``repeats`` times. The peer is installed below the directory."""
    python = peer_python(directory, "sb3", (f"{SB3}=={SB3_VERSION}",))
    share = Measure("share of N / 0.1 s", "%", "higher", f"learnt env steps/s over {MEASURED_S:.0f} s, after a warm-up")
    bounded = Measure("sync: share of its barrier bound", "%", "higher", "the same, over E[S_T] / E[max over N of S_T]")
    cpu = Measure("CPU per environment step", "ms", "lower", "of actors and environments, from start to end")
    learner = Measure("load of the learner", "% of a core", "lower", "from start to end, its imports included")
    memory = Measure("memory per environment", "MiB", "lower", "proportional, of actors and environments' processes")
    with tempfile.TemporaryDirectory() as runs:
        for number in range(repeats):
            for case in cases():
                found = _measure(case, Path(runs) / f"{number}-{case.workflow}-{case.envs}-{case.times[:3]}", number)
                share.add(str(case), 100 * found["share"])
                print(f"  {case}: {100 * found['share']:.1f} %", file=sys.stderr)
                if case.workflow == "sync":
                    bound = barrier_bound(case.envs, case.times, found["stepping"])
                    bounded.add(str(case), 100 * found["share"] / bound)
                for measure, name in ((cpu, "cpu_ms"), (learner, "learner"), (memory, "memory_mib")):
                    measure.add(str(case), found[name])
            for times, (distribution, cv) in STEP_TIMES.items():
                for envs in (size for size in SIZES if size <= MOST_OF_SB3):
                    script = str(Path(__file__).parent / "peer_scripts" / "sb3_slow.py")
                    seconds = (WARM_UP_S, MEASURED_S)
                    output, _ = timed([str(python), script, *map(str, (envs, STEP_S, distribution, cv, *seconds))])
                    rate = float(json.loads(output)["env_steps_per_s"])
                    share.add(f"{SB3}, {envs}, {times}", 100 * rate * STEP_S / envs)
    title = f"Slow environments, 100 ms steps, {repeats} times each; {SB3} {SB3_VERSION} beside"
    return Report(title, [share, bounded, cpu, learner, memory])


def _measure(case: Case, run_dir: Path, seed: int) -> dict[str, float]:
    """One run: its share of N / 0.1 s, and what it cost."""
    ideal = case.envs / STEP_S
    distribution, cv = STEP_TIMES[case.times]
    each = min(case.envs, ENVS_PER_ACTOR)
    settings = [
        "env.kwargs.env=CartPole-v1",
        f"env.kwargs.step_time_s={STEP_S}",
        f"env.kwargs.distribution={distribution}",
        f"env.kwargs.cv={cv}",
        "env.hosting=process",
        f"agent.rows={ROWS}",
        *(REPLAY_SETTINGS if case.workflow == "replay" else ()),
    ]
    options = ["--workflow", case.workflow, "--engine", "local", "--steps", str(int(ideal * (WARM_UP_S + MEASURED_S)))]
    options += ["--actors", str(case.envs // each), "--envs-per-actor", str(each)]
    options += [word for setting in settings for word in ("--set", setting)]
    timed(train_command(AGENTS[case.workflow], "whorl/Slow-v0", run_dir, seed, *options))
    result = json.loads((run_dir / "result.json").read_text())
    used = result["resources"]
    acting = [used[kind] for kind in ("actor", "env")]
    rows = result["updates"] * case.envs * ROWS
    return {
        "stepping": result["transitions"]["used"] / rows,
        "share": steady_rate(run_dir / "metrics.jsonl", int(ideal * WARM_UP_S)) / ideal,
        "cpu_ms": 1e3 * sum(row["cpu_share"] for row in acting) * result["wall_s"] / result["transitions"]["collected"],
        "learner": 100 * used["learner"]["cpu_share"],
        "memory_mib": sum(row["memory_bytes"] for row in acting) / 2**20 / case.envs,
    }


def barrier_bound(envs: int, times: str, stepping: float, draws: int = 2000) -> float:
    """E[S_T] / E[max over N of S_T], by drawing; ``stepping`` is the share of rows in which environments step. In terms
    of N / step time: what is lost at the barriers, and nothing else."""
    rng = np.random.default_rng(0)
    distribution, cv = STEP_TIMES[times]
    shape = (draws, envs, ROWS)
    if distribution == "lognormal":
        variance = np.log1p(cv * cv)
        steps = np.exp(np.sqrt(variance) * rng.standard_normal(shape) - variance / 2)
    elif distribution == "mixture":
        odds = np.sqrt((1 - SLOW_SHARE) / SLOW_SHARE)
        steps = np.where(rng.random(shape) < SLOW_SHARE, 1 + cv * odds, 1 - cv / odds)
    else:
        steps = np.ones(shape)
    sums = (steps * (rng.random(shape) < stepping)).sum(axis=2)
    return float(sums.mean() / sums.max(axis=1).mean())
