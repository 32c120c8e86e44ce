"""What each workflow costs beyond its work, and how near it comes to what the cores can do.

    whorl bench workflows

The work of an environment step is that of the environment, of inference and of learning. It is measured in one process
(``sync`` on ``inline``, by its phases: ``bench/working.py``), with as many such processes at once as there are cores,
so that caches and clocks are shared as they will be. Cores over that work is the roofline. Every workflow then runs on
``local`` with an actor for each core: its env steps per second over the roofline, and its CPU time per env step beyond
the work. Of env steps that are not learnt from (in ``window`` many are overwritten), learning is no part of the work.

- *small*: CartPole-v1 and its small network.
- *Atari-sized*: 84 x 84 x 4 bytes made from larger frames at every step, and the Nature CNN. DQN draws 0.8 samples for
  each env step, as Ape-X does: with many more, its one learner is the limit and leaves a core half idle.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from whorl.bench.report import Measure, Report
from whorl.bench.sides import RUN_TIMEOUT_S, train_command
from whorl.engines.usage import state_and_cpu_s
from whorl.errors import WhorlError

CORES = os.cpu_count() or 1
ENVS_PER_ACTOR = 8
WARM_UP_S, MEASURED_S = 5.0, 15.0
ROWS = 20
FEWEST_SAMPLES = 5

gymnasium.register("WhorlFrames-v0", entry_point="whorl.bench.workflows:Frames")


class Frames(gymnasium.Env[Any, Any]):
    """Pictures as Atari gives them to a network, and about the work of making them; nothing to be learnt."""

    def __init__(self, length: int = 1000) -> None:
        self.observation_space = gymnasium.spaces.Box(0, 255, (84, 84, 4), np.uint8)
        self.action_space = gymnasium.spaces.Discrete(6)
        self._length, self._at = length, 0
        self._screen = np.zeros((210, 168, 3), np.uint8)
        self._stack = np.zeros((84, 84, 4), np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._at = 0
        self._screen[:] = self.np_random.integers(0, 256, self._screen.shape, np.uint8)
        self._stack[:] = 0
        return self._stack.copy(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._at += 1
        before = self._screen.copy()
        self._screen += np.uint8(1 + int(action))  # every picture is another one
        seen = np.maximum(before, self._screen)[21:189:2, ::2].astype(np.float32)
        self._stack[..., :3] = self._stack[..., 1:]
        self._stack[..., 3] = seen @ np.array([0.3, 0.6, 0.1], np.float32)
        return self._stack.copy(), float(int(action) == self._at % 6), False, self._at >= self._length, {}


@dataclass(frozen=True)
class Kind:
    """A size of data: the environment, and the settings of the agents."""

    name: str
    env: str
    settings: tuple[str, ...]
    replay_settings: tuple[str, ...]
    steps_at_most: int
    """Env steps per second that nobody reaches: to keep a run going until it was measured."""


KINDS = (
    Kind(
        "small",
        "CartPole-v1",
        ("agent.normalise_rewards=false",),
        ("agent.learning_starts=320", "agent.gradient_steps=4"),
        200_000,
    ),
    Kind(
        "Atari-sized",
        "whorl.bench.workflows:WhorlFrames-v0",
        (),
        ("agent.learning_starts=320", "agent.batch_size=32", "agent.gradient_steps=4", "agent.replay.capacity=20000"),
        5_000,
    ),
)
AGENTS = {
    **dict.fromkeys(("sync", "overlap", "async", "window", "queue", "seed", "gradients", "allreduce"), "impala"),
    "replay": "dqn",
}


@dataclass
class Steady:
    """A run between its warm-up and its end."""

    env_steps_per_s: float
    cpu_s_per_step: float
    learnt: float
    """Share of env steps that were learnt from."""


def run(repeats: int, directory: Path) -> Report:
    """Every workflow on every kind of data, ``repeats`` times; the directory is not needed."""
    del directory
    measures: list[Measure] = []
    for kind in KINDS:
        work = Measure(f"{kind.name}: work", "us of CPU", "lower", "environment, inference, learning; per env step")
        share = Measure(f"{kind.name}: share of the roofline", "%", "higher", f"of {CORES} cores over the work")
        beyond = Measure(f"{kind.name}: beyond the work", "us of CPU", "lower", "per env step, of all processes")
        rate = Measure(f"{kind.name}: speed", "env steps/s", "higher", f"over {MEASURED_S:.0f} s, after a warm-up")
        measures += [work, share, beyond, rate]
        with tempfile.TemporaryDirectory() as runs:
            for seed in range(1, repeats + 1):
                parts_of = {}
                for agent in dict.fromkeys(AGENTS.values()):
                    parts_of[agent] = work_of(kind, agent, Path(runs) / f"{agent}-{seed}", seed)
                    for part, seconds in parts_of[agent].items():
                        work.add(f"{agent}: {part}", 1e6 * seconds)
                for workflow, agent in AGENTS.items():
                    steady = measure(kind, workflow, agent, Path(runs) / f"{workflow}-{seed}", seed)
                    parts = parts_of[agent]
                    work_s = parts["environment"] + parts["inference"] + steady.learnt * parts["learning"]
                    rate.add(workflow, steady.env_steps_per_s)
                    share.add(workflow, 100 * steady.env_steps_per_s * work_s / CORES)
                    beyond.add(workflow, 1e6 * (steady.cpu_s_per_step - work_s))
                    shown = f"{share.values[workflow][-1]:.0f} %, {beyond.values[workflow][-1]:.0f} us beyond"
                    print(f"  seed {seed}: {kind.name}: {workflow}: {shown}", file=sys.stderr)
    return Report(f"Workflows and what they cost, {repeats} times each", measures)


def settings_of(kind: Kind, agent: str) -> list[str]:
    """Of every run, whatever the workflow."""
    own = kind.replay_settings if agent == "dqn" else kind.settings
    return [f"agent.rows={ROWS}", f"resources.envs_per_actor={ENVS_PER_ACTOR}", *own]


def work_of(kind: Kind, agent: str, run_dir: Path, seed: int) -> dict[str, float]:
    """CPU seconds per env step of environment, inference and learning, in as many processes at once as cores."""
    settings = [*settings_of(kind, agent), f"run.seed={seed}", f"resources.actors={CORES}"]
    command = [sys.executable, "-m", "whorl.bench.working", agent, kind.env]
    times = [str(WARM_UP_S), str(MEASURED_S)]
    runs = [start([*command, str(run_dir / str(copy)), *times, *settings]) for copy in range(CORES)]
    said = [process.communicate(timeout=RUN_TIMEOUT_S) for process in runs]
    if any(process.returncode for process in runs):
        raise WhorlError(f"the work of {agent} on {kind.name} could not be measured: {said[0][1].decode().strip()}")
    parts = [json.loads(output.splitlines()[-1]) for output, _ in said]
    return {part: float(np.mean([one[part] for one in parts])) for part in parts[0]}


def measure(kind: Kind, workflow: str, agent: str, run_dir: Path, seed: int) -> Steady:
    """One run on ``local``, watched from outside while it goes on."""
    crew = {"allreduce": ("--learners", str(CORES))}.get(workflow, ("--actors", str(CORES)))
    steps = int(2 * kind.steps_at_most * (WARM_UP_S + MEASURED_S))
    options = ["--steps", str(steps), "--engine", "local", "--workflow", workflow, *crew, "--quiet"]
    options += [word for setting in settings_of(kind, agent) for word in ("--set", setting)]
    process = start(train_command(agent, kind.env, run_dir, seed, *options))
    try:
        samples = list(watch(process, run_dir / "metrics.jsonl"))
    finally:
        (complaint,) = end([process])
    if len(samples) < FEWEST_SAMPLES:
        raise WhorlError(f"{workflow} on {kind.name} could not be measured: {complaint}")
    wall_s, taken, dropped, cpu_s = (last - first for first, last in zip(samples[0], samples[-1], strict=True))
    return Steady(taken / wall_s, cpu_s / taken, 1 - dropped / taken)


def start(command: list[str]) -> subprocess.Popen[bytes]:
    """A run of its own, with one thread for each process."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def end(runs: list[subprocess.Popen[bytes]]) -> list[str]:
    """Have them save, say what they did and end; what each had to complain of."""
    for process in runs:
        process.terminate()
    return [process.communicate(timeout=RUN_TIMEOUT_S)[1].decode().strip() for process in runs]


def watch(process: subprocess.Popen[bytes], metrics: Path) -> Iterator[tuple[float, ...]]:
    """(time, env steps, those dropped, CPU seconds of all its processes) of a run, as its lines of metrics come, after
    the warm-up."""
    first_at = None
    while process.poll() is None:
        time.sleep(0.25)
        lines = metrics.read_bytes().splitlines(keepends=True)[-2:] if metrics.exists() else []
        whole = [line for line in lines if line.endswith(b"\n")]
        if not whole:
            continue
        now = time.monotonic()
        first_at = first_at or now
        if now - first_at >= WARM_UP_S:
            line = json.loads(whole[-1])
            yield now, line["env_steps"], line["dropped"], cpu_seconds(process.pid)
        if now - first_at >= WARM_UP_S + MEASURED_S:
            return


def cpu_seconds(pid: int) -> float:
    """Of a process and everything below it that still runs."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    try:
        children = [int(word) for listed in lists for word in listed.read_text().split()]
    except OSError:  # it has just ended
        return 0.0
    return state_and_cpu_s(pid)[1] + sum(map(cpu_seconds, children))
