"""Slow environments: how near each workflow comes to the most that N environments can give, N over the step time.

    whorl bench slow

``whorl/Slow-v0`` around CartPole-v1 with steps of 100 ms in processes of their own; the learner learns from everything.
An asynchronous workflow can reach N / 0.1 s: all environments are in steps all the time. It is that share of their time
which is measured (``bench/told.py``), since the number of steps depends on the durations that happen to be drawn.

In ``sync`` everybody waits for the slowest of each batch: its bound is E[S_T] / E[max over N of S_T], S_T the sum of
the step times in the T rows of a trajectory; rows in which an episode begins take none. It is run with an agent that
learns quickly (a2c), since there everybody waits for learning as well.

The limit of the machine is measured beside: N processes that only wait as long. Where a virtual machine's processors
are lent to others now and then, even those fall short of N / 0.1 s, and no workflow can do better.

Stable-Baselines3 waits for the slowest environment at every single step; RLlib's IMPALA does not, but for those of one
runner. Both keep processes with PyTorch, so that they are run with 16 and 64.
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from whorl.bench.peers import peer_python
from whorl.bench.report import Measure, Report
from whorl.bench.sides import SB3, SB3_VERSION, timed
from whorl.envs.library.slow import SLOW_SHARE

STEP_S = 0.1
ROWS = 32
ENVS_PER_ACTOR = 32
WARM_UP_S, MEASURED_S = 5.0, 26.0
LIMIT_S = 6.0
SIZES = (16, 64, 256)
MOST_OF_PEERS = 64
RLLIB, RLLIB_VERSION = "rllib", "2.60.0"
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


def run(repeats: int, directory: Path) -> Report:
    """Every case ``repeats`` times. The peers are installed below the directory."""
    peers = {
        SB3: (peer_python(directory, "sb3", (f"{SB3}=={SB3_VERSION}",)), "sb3_slow.py"),
        RLLIB: (
            peer_python(directory, "rllib", (f"ray[rllib]=={RLLIB_VERSION}",), ("torch", "numpy")),
            "rllib_slow.py",
        ),
    }
    how = f"env steps over {MEASURED_S:.0f} s, at the durations they drew; peers: env steps as they are counted"
    share = Measure("share of N / 0.1 s", "%", "higher", how)
    limited = Measure(
        "share of the machine's limit", "%", "higher", "the same, over what N processes that only wait do"
    )
    bounded = Measure("sync: share of its barrier bound", "%", "higher", "the same, over E[S_T] / E[max over N of S_T]")
    cpu = Measure("CPU per environment step", "ms", "lower", "of actors and environments, from start to end")
    learner = Measure("load of the learner", "% of a core", "lower", "from start to end, its imports included")
    memory = Measure("memory per environment", "MiB", "lower", "proportional, of actors and environments' processes")

    def note(measure: Measure, subject: str, value: float) -> None:
        measure.add(subject, value)
        print(f"  {subject}: {value:.1f} {measure.unit} ({measure.name})", file=sys.stderr)

    def note_other(name: str, command: list[str], envs: int, times: str, *seconds: float) -> float:
        output, _ = timed([*command, *map(str, (envs, STEP_S, *STEP_TIMES[times], *seconds))])
        said = json.loads(output)
        found = 100 * float(said["in_steps"] if "in_steps" in said else said["env_steps_per_s"] * STEP_S / envs)
        note(share, f"{name}, {envs}, {times}", found)
        return found

    with tempfile.TemporaryDirectory() as runs:
        for number in range(repeats):
            for times, envs in itertools.product(STEP_TIMES, SIZES):
                sleepers = [sys.executable, "-m", "whorl.bench.sleepers"]
                limit = note_other("limit", sleepers, envs, times, LIMIT_S, LIMIT_S)
                for workflow in AGENTS:
                    case = Case(workflow, envs, times)
                    found = _measure(case, Path(runs) / f"{number}-{workflow}-{envs}-{times[:3]}", number)
                    note(share, str(case), 100 * found["share"])
                    if workflow == "sync":
                        note(bounded, str(case), 100 * found["share"] / barrier_bound(envs, times, found["stepping"]))
                    else:
                        note(limited, str(case), 100 * 100 * found["share"] / limit)
                    for measure, name in ((cpu, "cpu_ms"), (learner, "learner"), (memory, "memory_mib")):
                        measure.add(str(case), found[name])
                for name, (python, script) in peers.items() if envs <= MOST_OF_PEERS else ():
                    command = [str(python), str(Path(__file__).parent / "peer_scripts" / script)]
                    note_other(name, command, envs, times, WARM_UP_S, MEASURED_S)
    beside = f"{SB3} {SB3_VERSION} (PPO) and {RLLIB} {RLLIB_VERSION} (IMPALA) beside"
    return Report(
        f"Slow environments, 100 ms steps, {repeats} times each; {beside}",
        [share, limited, bounded, cpu, learner, memory],
    )


def slow_command(case: Case, run_dir: Path, seed: int, engine: str) -> list[str]:
    """The command of one run, which prints its rate."""
    distribution, cv = STEP_TIMES[case.times]
    each = min(case.envs, ENVS_PER_ACTOR)
    settings = [
        f"workflow.name={case.workflow}",
        f"engine.name={engine}",
        f"run.seed={seed}",
        f"resources.actors={case.envs // each}",
        f"resources.envs_per_actor={each}",
        "env.kwargs.env=CartPole-v1",
        f"env.kwargs.step_time_s={STEP_S}",
        f"env.kwargs.distribution={distribution}",
        f"env.kwargs.cv={cv}",
        "env.hosting=process",
        f"agent.rows={ROWS}",
        *(REPLAY_SETTINGS if case.workflow == "replay" else ()),
    ]
    command = [sys.executable, "-m", "whorl.bench.collecting", AGENTS[case.workflow], str(run_dir)]
    return [*command, str(WARM_UP_S), str(MEASURED_S), *settings]


def _measure(case: Case, run_dir: Path, seed: int) -> dict[str, float]:
    """One run: its share of N / 0.1 s, and what it cost."""
    output, _ = timed(slow_command(case, run_dir, seed, "local"))
    result = json.loads((run_dir / "result.json").read_text())
    used = result["resources"]
    acting = [used[kind] for kind in ("actor", "env")]
    rows = result["updates"] * case.envs * ROWS
    return {
        "stepping": result["transitions"]["used"] / rows,
        "share": json.loads(output)["in_steps"],
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
