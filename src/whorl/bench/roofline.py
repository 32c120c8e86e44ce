"""The most that this machine could train on Breakout with the Nature CNN: nothing but arithmetic and the emulator.

    python -m whorl.bench.roofline THREADS SECONDS       one line of JSON: seconds for each env step

What is measured, each for ``SECONDS``, with ``THREADS`` of torch and of ALE:

- *environment*: ``AtariVectorEnv`` of ale-py, 8 games, random actions, its own resets;
- *inference*: the policy for 8 rows;
- *values*: the value of 1,024 rows, for PPO's advantages;
- *learning*: forward, backward and optimiser of a minibatch of 256 rows that lie ready.

Each is computed in several ways, and the quickest counts: as torch's modules, eager and compiled, and for learning as
Whorl does it; in bfloat16 where the processor has instructions for it, else in float32. Nothing is gathered, stored,
handed over or waited for.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from whorl.bench.cnn import BATCH, PlainNetwork, plain_step, whorl_step
from whorl.models.precision import Precision, has_bfloat16

ENVS = 8
VALUES_ROWS = 1024
PRECISION: Precision = "bfloat16" if has_bfloat16("cpu") else "float32"
Way = Callable[[], object]


def forward_ways(rows: int) -> Iterator[Way]:
    """The network forward for ``rows`` images."""
    images = torch.randint(0, 256, (rows, 4, 84, 84), dtype=torch.uint8).to(memory_format=torch.channels_last)
    for compiled in (False, True):
        network = PlainNetwork().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if PRECISION == "bfloat16":
            network.to(torch.bfloat16)
        run: Callable[[Tensor], object] = torch.compile(network) if compiled else network

        def way(run: Callable[[Tensor], object] = run) -> object:
            with torch.inference_mode():
                return run(images)

        yield way


def learning_ways(threads: int) -> Iterator[Way]:
    """One gradient step on a minibatch."""
    yield whorl_step(threads, PRECISION)
    for compiled in (False, True):
        step = plain_step(compiled, channels_last=True)

        def way(step: Way = step) -> object:
            with torch.autocast("cpu", torch.bfloat16, enabled=PRECISION == "bfloat16"):
                return step()

        yield way


def emulator(threads: int) -> Way:
    """One step of ale-py's own vector environment."""
    from ale_py.vector_env import AtariVectorEnv

    games: Any = AtariVectorEnv("breakout", num_envs=ENVS, num_threads=threads)
    games.reset(seed=1)
    actions = np.random.default_rng(1).integers(0, int(games.single_action_space.n), (1000, ENVS))
    row = iter(range(10**9))
    return lambda: games.step(actions[next(row) % len(actions)])


def seconds_of(way: Way, seconds: float) -> float:
    """Mean time of a call, after some to warm up."""
    for _ in range(3):
        way()
    begin, calls = time.perf_counter(), 0
    while (passed := time.perf_counter() - begin) < seconds:
        way()
        calls += 1
    return passed / calls


def measure(threads: int, seconds: float) -> dict[str, float]:
    """Seconds for each env step."""
    torch.set_num_threads(threads)
    return {
        "environment": seconds_of(emulator(threads), seconds) / ENVS,
        "inference": min(seconds_of(way, seconds) for way in forward_ways(ENVS)) / ENVS,
        "values": min(seconds_of(way, seconds) for way in forward_ways(VALUES_ROWS)) / VALUES_ROWS,
        "learning": min(seconds_of(way, seconds) for way in learning_ways(threads)) / BATCH,
    }


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]), float(sys.argv[2]))))
