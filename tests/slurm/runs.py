"""Small trainings for jobs, and what an undisturbed run of them comes to."""

from __future__ import annotations

import json
import time
from functools import cache
from pathlib import Path
from typing import Any

from tests.slurm.cluster import SlurmCluster

import whorl

SETTINGS = {"agent.rows": 32, "agent.network.hidden": "[16]", "agent.epochs": 2, "env.kwargs.env": "CartPole-v1"}
STEP_S = 0.003
"""So that no machine is done before a fault comes. It changes nothing but the time that a run takes."""


def training(run_dir: Path, engine: str, steps: int, *more: object) -> list[object]:
    """``-- train ...``, as small as it gets: 1 learner and 3 actors of 2 environments."""
    settings = {**SETTINGS, "env.kwargs.step_time_s": STEP_S, "env.hosting": "inside"}
    sets = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    sizes = ["--actors", 3, "--envs-per-actor", 2, "--steps", steps]
    return ["--", "train", "ppo", "whorl/Slow-v0", "--engine", engine, *sizes, *sets, "--run-dir", run_dir, *more]


@cache
def weights_of(steps: int) -> str:
    """Of the same run in one process, without a disturbance."""
    import tempfile

    settings = {**SETTINGS, "agent.network.hidden": [16], "env.kwargs.step_time_s": 0.0}
    with tempfile.TemporaryDirectory() as folder:
        run = whorl.train(
            "ppo",
            "whorl/Slow-v0",
            engine="inline",
            actors=3,
            envs_per_actor=2,
            steps=steps,
            set=settings,
            run_dir=Path(folder, "run"),
        )
        return run.result.weights_sha256


def result_of(run_dir: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((run_dir / "result.json").read_text())
    return result


def submitted(slurm: SlurmCluster, *words: object) -> int:
    """The number of a job that ``whorl slurm ... --submit`` has queued."""
    done = slurm.whorl("slurm", "--submit", *words)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[1])


def log_of(run_dir: Path) -> str:
    return "\n".join(path.read_text() for path in sorted((run_dir / "logs").glob("job*.log")))


def await_updates(slurm: SlurmCluster, run_dir: Path, job: int, count: int, timeout_s: float = 200.0) -> None:
    """Until so many updates were made."""
    end = time.monotonic() + timeout_s
    metrics = run_dir / "metrics.jsonl"
    while not metrics.exists() or len(metrics.read_bytes().splitlines()) < count:
        state = slurm.job(job).state
        assert state in ("PENDING", "CONFIGURING", "RUNNING"), f"{state}\n{log_of(run_dir)}"
        assert time.monotonic() < end, log_of(run_dir)
        time.sleep(0.1)
