"""Slow environments on the Ray engine, beside RLlib's IMPALA on the same Ray.

    whorl bench ray

64 and 128 copies of CartPole-v1 with steps of 100 ms, in ``async`` on a private cluster of one machine: environment
steps per second and their share of N / 0.1 s, the memory of all processes per environment (Ray's own included), and the
time from the command to the first environment step. Whorl's steps are those learnt from, RLlib's all that its
environments took.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from whorl.bench import slow
from whorl.bench.peers import peer_python
from whorl.bench.report import Measure, Report
from whorl.bench.slow import (
    RLLIB,
    RLLIB_VERSION,
    ROWS,
    STEP_S,
    Case,
    slow_command,
)
from whorl.engines.usage import proportional_memory_bytes
from whorl.errors import WhorlError

SIZES = (64, 128)
LOOK_EVERY_S = 2.0
MOST_S = 600.0


class Ran(NamedTuple):
    """What a command printed, when it was started, and the most memory its family had."""

    output: str
    started_at: float
    memory_bytes: int


def run(repeats: int, directory: Path, sizes: Sequence[int] = SIZES) -> Report:
    """Both sides ``repeats`` times, in turn. The peer is installed below the directory."""
    python = peer_python(directory, "rllib", (f"ray[rllib]=={RLLIB_VERSION}",), ("torch", "numpy"))
    script = Path(__file__).parent / "peer_scripts" / "rllib_slow.py"
    speed = Measure("speed", "env steps/s", "higher", f"over {slow.MEASURED_S:.0f} s, after a warm-up")
    share = Measure("share of N / 0.1 s", "%", "higher", "the same, over the most that N environments can give")
    memory = Measure("memory per environment", "MiB", "lower", "proportional, of all processes, at its highest")
    start = Measure("start-up", "s", "lower", "from the command to the first environment step")

    def note(subject: str, envs: int, rate: float, ran: Ran, ready_at: float) -> None:
        speed.add(subject, rate)
        share.add(subject, 100 * rate * STEP_S / envs)
        memory.add(subject, ran.memory_bytes / 2**20 / envs)
        start.add(subject, ready_at - ran.started_at)
        print(f"  {subject}: {rate:.0f} env steps/s, {100 * rate * STEP_S / envs:.1f} % of N / 0.1 s", file=sys.stderr)

    with tempfile.TemporaryDirectory() as runs:
        for number, envs in itertools.product(range(repeats), sizes):
            folder = Path(runs) / f"{number}-{envs}"
            ran = _watched(slow_command(Case("async", envs, "constant"), folder, number, "ray"))
            rate = json.loads(ran.output.strip().splitlines()[-1])["env_steps_per_s"]
            note(f"whorl, {envs}", envs, rate, ran, _first_step_at(folder))
            settings = (envs, STEP_S, "constant", 0.0, slow.WARM_UP_S, slow.MEASURED_S)
            ran = _watched([str(python), str(script), *map(str, settings)])
            said = json.loads(ran.output.strip().splitlines()[-1])
            note(f"{RLLIB}, {envs}", envs, said["env_steps_per_s"], ran, said["ready_at"])
    title = f"Slow environments on Ray, 100 ms steps, {repeats} times each; {RLLIB} {RLLIB_VERSION} (IMPALA) beside"
    return Report(title, [speed, share, memory, start])


def _first_step_at(folder: Path) -> float:
    """When the environments of a run began: so many seconds before its end, less those of the first trajectories."""
    result = folder / "result.json"
    run_began_at = result.stat().st_mtime - json.loads(result.read_text())["wall_s"]
    first = json.loads((folder / "metrics.jsonl").read_text().splitlines()[0])
    return float(run_began_at + first["wall_s"] - ROWS * STEP_S)


def _watched(command: list[str]) -> Ran:
    """Run a command to its end, looking at its memory now and then."""
    started_at, most = time.time(), 0
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        with subprocess.Popen(command, stdout=output, stderr=errors) as process:
            while process.poll() is None:
                if time.time() - started_at > MOST_S:
                    process.kill()
                    raise WhorlError(f"{command[0]} did not end within {MOST_S:g} s")
                most = max(most, sum(proportional_memory_bytes(pid) for pid in _family(process.pid)))
                time.sleep(LOOK_EVERY_S)
        output.seek(0)
        errors.seek(0)
        if process.returncode:
            raise WhorlError(f"{' '.join(command[:3])} failed: {errors.read().strip()[-500:]}")
        return Ran(output.read(), started_at, most)


def _family(root: int) -> list[int]:
    """A process and all that descend from it."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            parents.setdefault(parent, []).append(int(entry.name))
    found = [root]
    for pid in found:
        found.extend(parents.get(pid, ()))
    return found
