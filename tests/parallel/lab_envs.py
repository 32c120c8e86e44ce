"""Environments of several ranks that go wrong in the middle of a run."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete

from whorl.envs.parallel import ParallelEnv


class Shaky(ParallelEnv):
    """Counts its steps on all ranks; in its first episode, at step 3, it raises on all of them or on one alone."""

    observation_space = Box(0, 100, (1,), np.float32)
    action_space = Discrete(2)

    def __init__(self, raises: str = "all") -> None:
        super().__init__()
        self.raises, self.steps, self.episodes = raises, 0, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps, self.episodes = 0, self.episodes + 1
        return self.look(), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        # Not while it is looked over, which one rank does.
        if self.size > 1 and self.steps == 3 and self.episodes == 1 and self.raises in ("all", f"rank {self.rank}"):
            self.episodes += 1
            raise ValueError(f"diverged at rank {self.rank}")
        return self.look(), 1.0, False, self.steps == 8, {}

    def look(self) -> Any:
        steps = np.array([float(self.steps)])
        if self.size > 1:
            total = np.zeros(1)
            self.comm.Allreduce(steps, total)  # blocks, and spins, as any solver's would
            steps = total / self.size
        return steps.astype(np.float32)
