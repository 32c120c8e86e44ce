"""TorchRL's prioritised replay (its C++ sum tree). Runs in the peer's environment:

    python torchrl_replay.py SIZE BATCH BATCHES SEED

Prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
import time


def speed(size: int, batch: int, batches: int, seed: int) -> dict[str, float]:
    """Batches per second: drawn with their data, then their priorities set."""
    import torch
    from tensordict import TensorDict
    from torchrl.data import LazyTensorStorage, TensorDictPrioritizedReplayBuffer

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    replay = TensorDictPrioritizedReplayBuffer(
        alpha=0.6, beta=0.4, storage=LazyTensorStorage(size), batch_size=batch, priority_key="td_error"
    )
    part = size // 10
    for _ in range(10):
        rows = {
            "observation": torch.rand(part, 17),
            "action": torch.rand(part, 6),
            "reward": torch.rand(part),
            "next_observation": torch.rand(part, 17),
            "terminated": torch.rand(part) < 0.01,
        }
        replay.extend(TensorDict(rows, batch_size=[part]))
    for begin in range(0, size, part):
        replay.update_priority(torch.arange(begin, begin + part), torch.rand(part))
    errors = torch.rand(64, batch)

    def run(count: int) -> float:
        begin = time.perf_counter()
        for number in range(count):
            drawn = replay.sample()
            replay.update_priority(drawn["index"], errors[number % 64])
        return time.perf_counter() - begin

    run(batches // 10)
    return {"batches_per_s": batches / run(batches)}


if __name__ == "__main__":
    print(json.dumps(speed(*map(int, sys.argv[1:]))))
