"""The two sides of a comparison: fresh processes, their time, and the rate a run of ours reached."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from whorl.bench.peers import peer_python
from whorl.bench.report import Measure, Report
from whorl.errors import WhorlError

SB3, SB3_VERSION = "stable-baselines3", "2.9.2"
RUN_TIMEOUT_S = 600


def add(measure: Measure, subject: str, seed: int, value: float) -> None:
    """Note one value, and show it."""
    measure.add(subject, value)
    print(f"  seed {seed}: {subject:<34} {value:10,.1f} {measure.unit}", file=sys.stderr)


def train_command(agent: str, env: str, run_dir: Path, seed: int, *options: str) -> list[str]:
    """``whorl train`` with this interpreter."""
    command = [sys.executable, "-m", "whorl.cli.main", "train", agent, env]
    return [*command, "--seed", str(seed), "--run-dir", str(run_dir), *options]


def steady_rate(metrics: Path, warm_up_env_steps: int) -> float:
    """Environment steps per second from the first line of metrics after the warm-up to the last."""
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    steady = [line for line in lines if line["env_steps"] >= warm_up_env_steps]
    if len(steady) < 2:
        raise WhorlError(f"{metrics}: fewer than two lines after {warm_up_env_steps:,} environment steps")
    first, last = steady[0], steady[-1]
    return float((last["env_steps"] - first["env_steps"]) / (last["wall_s"] - first["wall_s"]))


def timed(command: list[str]) -> tuple[str, float]:
    """The last line a command printed, and the seconds it took."""
    begin = time.perf_counter()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, env=environment)
    wall_s = time.perf_counter() - begin
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise WhorlError(f"{' '.join(command[:6])} ... failed with exit code {done.returncode}: {reason}")
    return (done.stdout.strip().splitlines() or [""])[-1], wall_s


def speed_beside_sb3(
    agent: str,
    env: str,
    settings: Sequence[str],
    peers: Mapping[str, Sequence[str]],
    *,
    warm_up: int,
    measured: int,
    repeats: int,
    directory: Path,
) -> Report:
    """Environment steps per second of all sides in turn. ``peers`` are the peer's script and its first arguments for
    each way to run it; the first is what Whorl is compared with. ``directory`` keeps the peer's environment."""
    python = peer_python(directory, "sb3", (f"{SB3}=={SB3_VERSION}",))
    speed = Measure(
        "speed, the same settings on both sides",
        "environment steps/s",
        "higher",
        f"{measured:,} environment steps with learning, after {warm_up:,} of warm-up",
    )
    title = f"{agent.upper()} on {env}: whorl and {SB3} {SB3_VERSION}, {repeats} runs each, alternating"
    report = Report(title, [speed], reference=next(iter(peers)))
    options = ["--steps", str(warm_up + measured), *(word for setting in settings for word in ("--set", setting))]
    with tempfile.TemporaryDirectory() as runs:
        for seed in range(1, repeats + 1):
            for name, peer in peers.items():
                output, _ = timed([str(python), *peer, *map(str, (warm_up, measured, seed))])
                add(speed, name, seed, float(json.loads(output)["env_steps_per_s"]))
            run_dir = Path(runs) / f"speed-{seed}"
            timed(train_command(agent, env, run_dir, seed, *options))
            add(speed, "whorl", seed, steady_rate(run_dir / "metrics.jsonl", warm_up))
    return report
