"""Eight actors, then four, then two: in one run, and by checkpoint and restart, on ``local`` and on ``ray``.

    whorl bench elastic

CartPole-v1 with steps of 50 ms in ``async``. The phases are as long as ten seconds at the most that their environments
can give. One run follows a schedule; the other way is what the Cray study did: train, save, end, and start again with
fewer. Measured from the first command to the end of the last: the seconds beyond the ideal, which are start-up,
restarts and whatever the workflow itself leaves; transitions lost; and after how many updates the rate is that of the
new number.
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from whorl.bench.report import Measure, Report
from whorl.bench.sides import timed, train_command
from whorl.errors import WhorlError

STEP_S = 0.05
ENVS_PER_ACTOR = 2
ROWS = 16
ACTORS = (8, 4, 2)
PHASE_S = 10.0
NEAR = 0.2
"""A rate this near to the ideal one is that of the new number of actors."""
ENGINES = ("local", "ray")


def ideal_rate(actors: int) -> float:
    """Environment steps per second when nobody waits for anything but its environment."""
    return actors * ENVS_PER_ACTOR / STEP_S


def phase_ends(actors: Sequence[int], phase_s: float) -> list[int]:
    """Environment steps at which each phase ends."""
    return list(itertools.accumulate(int(ideal_rate(count) * phase_s) for count in actors))


def run(repeats: int, _directory: Path, actors: Sequence[int] = ACTORS, phase_s: float = PHASE_S) -> Report:
    """Both ways on both engines, in turn."""
    beyond = Measure(
        "beyond the ideal", "s", "lower", f"from the first command to the last's end, less {len(actors) * phase_s:g} s"
    )
    lost = Measure("transitions lost", "env steps", "lower", "collected and neither used nor in a queue")
    follows = Measure(
        "rate follows", "updates", "lower", f"after a change, until the rate is within {NEAR:.0%} of the new ideal"
    )
    with tempfile.TemporaryDirectory() as runs:
        for number, engine in itertools.product(range(repeats), ENGINES):
            for way, measured in (("one run", _in_one_run), ("restarts", _by_restarts)):
                folder, subject = Path(runs) / f"{number}-{engine}-{way[:3]}", f"{engine}, {way}"
                wall_s = measured(folder, engine, number + 1, actors, phase_s)
                result = json.loads((folder / "result.json").read_text())
                beyond.add(subject, wall_s - len(actors) * phase_s)
                lost.add(subject, result["transitions"]["lost"])
                if way == "one run":
                    for updates in updates_until_near(folder / "metrics.jsonl", actors, phase_s):
                        follows.add(subject, updates)
                print(f"  {subject}: {wall_s:.1f} s", file=sys.stderr)
    counts = ", then ".join(map(str, actors))
    return Report(
        f"{counts} actors, {repeats} times each: in one run, and by checkpoint and restart", [beyond, lost, follows]
    )


def _command(folder: Path, engine: str, seed: int, schedule: str, steps: int, most: int) -> list[str]:
    settings = (
        "env.kwargs.env=CartPole-v1",
        f"env.kwargs.step_time_s={STEP_S}",
        "env.hosting=process",
        f"agent.rows={ROWS}",
    )
    options = ["--workflow", "async", "--engine", engine, "--steps", str(steps), "--actors", str(most)]
    options += ["--envs-per-actor", str(ENVS_PER_ACTOR), "--actors-schedule", schedule]
    options += [word for setting in settings for word in ("--set", setting)]
    return train_command("impala", "whorl/Slow-v0", folder, seed, *options)


def _in_one_run(folder: Path, engine: str, seed: int, actors: Sequence[int], phase_s: float) -> float:
    ends = phase_ends(actors, phase_s)
    schedule = ",".join(f"{begin}:{count}" for begin, count in zip((0, *ends), actors, strict=False))
    return timed(_command(folder, engine, seed, schedule, ends[-1], actors[0]))[1]


def _by_restarts(folder: Path, engine: str, seed: int, actors: Sequence[int], phase_s: float) -> float:
    """The config of a run that has ended is changed, and the run resumed from its checkpoint."""
    first, *ends = phase_ends(actors, phase_s)
    fewest = f"{10**17}:{min(actors)}"  # a schedule that comes to the fewest leaves room for their batches
    schedules = [f"0:{count},{fewest}" for count in actors]
    wall_s = timed(_command(folder, engine, seed, schedules[0], first, actors[0]))[1]
    config = folder / "config.toml"
    for end, (before, after) in zip(ends, itertools.pairwise(schedules), strict=True):
        text = config.read_text()
        if before not in text:
            raise WhorlError(f"{config}: holds no actors_schedule {before!r}")
        config.write_text(text.replace(before, after))
        wall_s += timed([sys.executable, "-m", "whorl.cli.main", "resume", str(folder), "--steps", str(end)])[1]
    return wall_s


def updates_until_near(metrics: Path, actors: Sequence[int], phase_s: float) -> list[float]:
    """After each change, how many updates it took until one went at the new rate; that of the change is the first."""
    lines: list[dict[str, Any]] = [json.loads(line) for line in metrics.read_text().splitlines()]
    found = []
    for begin, count in zip(phase_ends(actors, phase_s), actors[1:], strict=False):
        after = [line for line in lines if line["env_steps"] >= begin]
        for number, (one, other) in enumerate(itertools.pairwise(after), 1):
            rate = (other["env_steps"] - one["env_steps"]) / (other["wall_s"] - one["wall_s"])
            if abs(rate / ideal_rate(count) - 1) <= NEAR:
                found.append(float(number))
                break
        else:
            found.append(float(len(after)))
    return found
