"""cpprb's prioritised replay. Runs in the peer's environment:

    python cpprb_replay.py SIZE BATCH BATCHES SEED

Prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
import time


def speed(size: int, batch: int, batches: int, seed: int) -> dict[str, float]:
    """Batches per second: drawn with their data, then their priorities set."""
    import numpy as np
    from cpprb import PrioritizedReplayBuffer

    numbers = np.random.default_rng(seed)
    np.random.seed(seed)
    fields = {"obs": {"shape": 17}, "act": {"shape": 6}, "rew": {}, "next_obs": {"shape": 17}, "done": {}}
    replay = PrioritizedReplayBuffer(size, fields, alpha=0.6)
    part = size // 10
    for _ in range(10):
        replay.add(
            obs=numbers.random((part, 17), np.float32),
            act=numbers.random((part, 6), np.float32),
            rew=numbers.random(part, np.float32),
            next_obs=numbers.random((part, 17), np.float32),
            done=(numbers.random(part) < 0.01).astype(np.float32),
        )
    replay.update_priorities(np.arange(size), numbers.random(size, np.float32))
    errors = numbers.random((64, batch), np.float32)

    def run(count: int) -> float:
        begin = time.perf_counter()
        for number in range(count):
            drawn = replay.sample(batch, beta=0.4)
            replay.update_priorities(drawn["indexes"], errors[number % 64])
        return time.perf_counter() - begin

    run(batches // 10)
    return {"batches_per_s": batches / run(batches)}


if __name__ == "__main__":
    print(json.dumps(speed(*map(int, sys.argv[1:]))))
