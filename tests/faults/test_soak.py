"""Kill after kill in every workflow: nothing hangs, memory stays flat, and the account is exact.

About 200 kills over all workflows here, 1,000 in `make verify`.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from pathlib import Path

import psutil
import pytest
from running import AGENTS, Command, result_of, until

WORKFLOWS = [workflow for workflow in AGENTS if workflow != "allreduce"]
"""``allreduce`` has no actors; of lost learners, which restart all, others speak."""
REPLAY = ("agent.learning_starts=200", "agent.batch_size=32", "agent.gradient_steps=2", "agent.replay.capacity=5000")
LIMITS = ("engine.max_restarts=100000", "engine.max_restarts_without_progress=1000")
SETTINGS = ("agent.rows=8", *LIMITS, "run.checkpoint_every_s=5", "run.steps=1000000000")
FEWEST_KILLS_TO_JUDGE = 10


def soak(run_dir: Path, workflow: str, kills: int) -> None:
    """Kill whichever actor is up, ``kills`` times, then stop the run."""
    chance = random.Random(1)
    settings = [*SETTINGS, *(REPLAY if workflow == "replay" else ())]
    options = [word for setting in settings for word in ("--set", setting)]
    size = ("--engine", "local", "--actors", "3", "--envs-per-actor", "2", "--workflow", workflow)
    with Command("train", AGENTS[workflow], "CartPole-v1", *size, *options, "--run-dir", run_dir) as command:
        until(lambda: (run_dir / "metrics.jsonl").exists() and (run_dir / "metrics.jsonl").stat().st_size, "metrics")
        driver = psutil.Process(command.pid)
        descriptors = memory = 0
        for number in range(kills):
            actors = until(lambda: [pid for name, pid in command.roles().items() if name[:6] == "actor-"], "an actor")
            with contextlib.suppress(ProcessLookupError):
                os.kill(chance.choice(actors), signal.SIGKILL)
            time.sleep(chance.uniform(0.0, 0.15))
            if number == FEWEST_KILLS_TO_JUDGE:
                descriptors, memory = driver.num_fds(), driver.memory_info().rss
        size_before = (run_dir / "metrics.jsonl").stat().st_size
        until(lambda: (run_dir / "metrics.jsonl").stat().st_size > size_before, "another line of metrics")
        assert driver.num_fds() <= descriptors + 8
        assert driver.memory_info().rss < memory + 30_000_000
        command.signal(signal.SIGTERM)
        ended = command.ended()
    assert (ended.code, ended.err) == (75, "")
    result = result_of(run_dir)
    assert result["restarts"]["actor"] >= kills // 2
    assert result["restarts"]["learner"] == 0


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_kill_after_kill_in_every_workflow(run_dir: Path, workflow: str) -> None:
    soak(run_dir, workflow, 25)


@pytest.mark.verify
@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_kill_after_kill_for_long(run_dir: Path, workflow: str) -> None:
    soak(run_dir, workflow, 125)
