"""Several learners: what they give when learning takes long, and what adding their gradients up costs when it does not.

    whorl bench learners

- *emulated*: every gradient takes a learner 20 ms from the beginning of its update on (the rest of them asleep, as
  while an accelerator works), and actors are many: with L learners an update learns from L times as much, and 4 of them
  should give nearly 4 times the samples per second.
- *real*: the same without the sleep, on the cores there are; how much of the learners' time goes into waiting for each
  other and summing.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from whorl.agents.contract import LearnerSettings, Learning, Progress, Step
from whorl.agents.impala import AGENT as IMPALA
from whorl.bench.report import Measure, Report
from whorl.bench.sides import steady_rate, timed, train_command
from whorl.types import Array, Arrays, EnvSpec

UPDATE_S = 0.020
LEARNERS = (1, 2, 4)
ENVS_PER_ACTOR, ROWS = 8, 4
"""A trajectory is enough for a learner's share of an update: with few cores, actors should not be in its way."""
MEASURED_S = 15.0


def _sleepy_learning(config: Any, env: EnvSpec, settings: LearnerSettings) -> Learning:
    from whorl.agents.impala.learning import ImpalaLearning

    class Sleepy(ImpalaLearning):
        """Takes its time for its gradient."""

        def begin(self, shards: Mapping[int, Arrays], progress: Progress) -> None:
            self._over_at = time.perf_counter() + UPDATE_S
            super().begin(shards, progress)

        def contribute(self, step: Step, shard: int) -> Array:
            contribution = super().contribute(step, shard)
            time.sleep(max(0.0, self._over_at - time.perf_counter()))
            return contribution

    return Sleepy(config, env, settings)


SLEEPY = replace(IMPALA, name=f"{__name__}:SLEEPY", summary="IMPALA with slow updates", learning=_sleepy_learning)
"""Named by its place: ``whorl train whorl.bench.learners:SLEEPY ...``."""


def run(repeats: int, directory: Path) -> Report:
    """Every number of learners ``repeats`` times; the directory is not needed."""
    del directory
    emulated = Measure("samples, 20 ms for each update", "env steps/s", "higher", "learnt from, in async, CartPole-v1")
    real = Measure("samples, real updates", "env steps/s", "higher", "the same without the sleep")
    waiting = Measure("learners' time in waiting for each other, summing and actors", "%", "lower", "real updates")
    with tempfile.TemporaryDirectory() as runs:
        for seed in range(1, repeats + 1):
            for learners in LEARNERS:
                name = f"{learners} learner{'s' * (learners > 1)}"
                rate, _ = _measure(SLEEPY.name, learners, Path(runs) / f"sleepy-{learners}-{seed}", seed)
                emulated.add(name, rate)
                rate, share = _measure("impala", learners, Path(runs) / f"real-{learners}-{seed}", seed)
                real.add(name, rate)
                waiting.add(name, share)
                print(f"  seed {seed}: {name}: {emulated.values[name][-1]:,.0f} emulated, {rate:,.0f}", file=sys.stderr)
    return Report(f"Several learners, {repeats} times each", [emulated, real, waiting], reference="1 learner")


def _measure(agent: str, learners: int, run_dir: Path, seed: int) -> tuple[float, float]:
    """Env steps per second, and the percentage of the learners' time that is waiting."""
    per_update = learners * ENVS_PER_ACTOR * ROWS
    options: Sequence[str] = (
        *("--workflow", "async", "--engine", "local", "--learners", str(learners)),
        *("--actors", str(learners), "--envs-per-actor", str(ENVS_PER_ACTOR)),
        *("--steps", str(int(MEASURED_S / UPDATE_S * per_update))),
        *("--set", f"agent.rows={ROWS}", "--set", f"workflow.trajectories_per_update={learners}"),
        *("--set", "agent.normalise_rewards=false"),  # an update is one gradient
    )
    timed(train_command(agent, "CartPole-v1", run_dir, seed, *options))
    share = json.loads((run_dir / "result.json").read_text())["time_share"]["learner"]
    return steady_rate(run_dir / "metrics.jsonl", 20 * per_update), 100 * share["waiting"]
