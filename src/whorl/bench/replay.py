"""Prioritised replay beside TorchRL's (a C++ sum tree) and cpprb's (C++ too): batches per second.

Each side holds 1,000,000 transitions (17 numbers observed, 6 acted, reward, next observation, terminated) with random
priorities, alpha 0.6, beta 0.4. A batch is 256 transitions drawn with their data and importance weights, and then 256
new priorities. The sides take turns, each in a fresh process with one thread; filling is not counted. A peer that
cannot be installed here is left out with a note.

    python -m whorl.bench.replay SIZE BATCH BATCHES SEED        Whorl's side
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

from whorl.bench.peers import peer_python
from whorl.bench.report import Measure, Report
from whorl.bench.sides import add, timed
from whorl.errors import WhorlError
from whorl.replay.buffer import Replay
from whorl.types import ActionSpec, Arrays, EnvSpec, ObservationLeaf

SIZE, BATCH, BATCHES = 1_000_000, 256, 3_000
LANES = 8
SCRIPTS = Path(__file__).parent / "peer_scripts"
PEERS = {
    "torchrl": (("torchrl==0.14.1", "tensordict==0.14.3", "setuptools==84.2.1", "ninja==1.13.2"), ("torch", "numpy")),
    "cpprb": (("cpprb==11.0.0",), ("numpy",)),
}
"""What is installed, and which of our own dependencies it shares."""
ENV = EnvSpec(
    "17 numbers, 6 actions",
    (ObservationLeaf("obs", "vector", (17,), "float32"),),
    ActionSpec("box", (6,), "float32", low=(-1.0,) * 6, high=(1.0,) * 6),
    "replay",
    False,
    1000,
)


def run(repeats: int, directory: Path) -> Report:
    """Alternate the peers and Whorl; ``directory`` keeps the peers' environments."""
    speed = Measure(
        f"{BATCH} drawn with their data and {BATCH} priorities set, of {SIZE:,}",
        "batches/s",
        "higher",
        f"{BATCHES:,} batches in a fresh process after a tenth of that to warm up; one thread",
    )
    report = Report(f"Prioritised replay, {repeats} runs each, alternating", [speed])
    sides = {"whorl": [sys.executable, "-m", "whorl.bench.replay"]}
    for peer, (requirements, shared) in PEERS.items():
        try:
            python = peer_python(directory, peer, requirements, shared)
            if (build := SCRIPTS / f"{peer}_build.py").exists():
                timed([str(python), str(build)])
        except WhorlError as error:
            report.notes.append(f"{peer} is left out: {error}")
            continue
        sides[peer] = [str(python), str(SCRIPTS / f"{peer}_replay.py")]
    for seed in range(1, repeats + 1):
        for subject, command in sides.items():
            output, _ = timed([*command, *map(str, (SIZE, BATCH, BATCHES, seed))])
            add(speed, subject, seed, float(json.loads(output)["batches_per_s"]))
    report.notes += [
        f"whorl is {speed.advantage('whorl', peer):.2f} times as fast as {peer}" for peer in sides if peer != "whorl"
    ]
    return report


def whorl_speed(size: int, batch: int, batches: int, seed: int) -> dict[str, float]:
    """Batches per second: drawn with their data, then their priorities set."""
    numbers = np.random.default_rng(seed)
    # A row's successor must be stored before it can be drawn: one row more per lane.
    replay = Replay(ENV, LANES, size // LANES + 1, alpha=0.6)
    rows = size // LANES // 10
    for _ in range(10):
        replay.insert(_made_up(numbers, rows))
    replay.insert(_made_up(numbers, 1))
    whole = replay.draw((np.arange(size) % 1000 + 0.5) / 1000)
    replay.set_priorities(whole.indices, whole.generations, numbers.random(size, np.float32))
    errors = numbers.random((64, batch), np.float32)

    def run(count: int) -> float:
        begin = time.perf_counter()
        for number in range(count):
            drawn = replay.draw(numbers.random(batch), 0.4)
            replay.set_priorities(drawn.indices, drawn.generations, errors[number % 64])
        return time.perf_counter() - begin

    run(batches // 10)
    return {"batches_per_s": batches / run(batches)}


def _made_up(numbers: np.random.Generator, rows: int) -> Arrays:
    return {
        "obs/obs": numbers.random((rows, LANES, 17), np.float32),
        "action": numbers.random((rows, LANES, 6), np.float32),
        "reward": numbers.random((rows, LANES), np.float32),
        "terminated": numbers.random((rows, LANES)) < 0.01,
        "truncated": np.zeros((rows, LANES), np.bool_),
        "valid": np.ones((rows, LANES), np.bool_),
        "first": np.zeros((rows, LANES), np.bool_),
    }


if __name__ == "__main__":
    print(json.dumps(whorl_speed(*map(int, sys.argv[1:]))))
