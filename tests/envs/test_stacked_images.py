"""An image stacked of frames: recognised, stored once in memories, and learnt from as if nothing had been done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.wrappers import FrameStackObservation, TimeLimit

import whorl
from whorl.config.schema import EnvConfig
from whorl.envs import probe, stacking

SIZE = 36
SETTINGS = {
    "agent.rows": 8,
    "agent.batch_size": 16,
    "agent.learning_starts": 32,
    "agent.gradient_steps": 1,
    "agent.n_step": 2,
    "agent.replay.capacity": 600,  # nothing is overwritten: whole stacks can be drawn for a few rows longer
    "agent.network.hidden": (8,),
    "agent.network.image_features": 16,
}


class Dot(gymnasium.Env[Any, Any]):
    """A dot that goes left or right; where it goes can be seen only in two frames."""

    observation_space = Box(0, 255, (SIZE, SIZE), np.uint8)
    action_space = Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.x, self.speed = int(self.np_random.integers(8, SIZE - 8)), int(self.np_random.choice([-3, 3]))
        return self.frame(), {}

    def step(self, action: int) -> Any:
        self.x += self.speed
        over = not 0 <= self.x < SIZE
        return self.frame(), float((self.speed > 0) == bool(action)), over, False, {}

    def frame(self) -> Any:
        image = np.zeros((SIZE, SIZE), np.uint8)
        image[:, min(max(self.x, 0), SIZE - 1)] = 255
        return image


def stacked(padding_type: str = "reset") -> gymnasium.Env[Any, Any]:
    return TimeLimit(FrameStackObservation(Dot(), 3, padding_type=padding_type), 20)


def itself() -> gymnasium.Env[Any, Any]:
    env = Dot()
    env.observation_space = Box(0, 255, (4, SIZE, SIZE), np.uint8)
    env.frame_stack, env.frame_stack_padding = 4, "zero"  # type: ignore[attr-defined]
    return env


@pytest.mark.parametrize(
    ("maker", "frames", "padding"),
    [("stacked", 3, "reset"), ("itself", 4, "zero"), ("Dot", 1, "reset")],
)
def test_stacks_are_recognised(maker: str, frames: int, padding: str) -> None:
    config = EnvConfig(id=f"{__name__}:{maker}")
    (leaf,) = probe.plain_spec(config, globals()[maker]()).observation
    assert (leaf.frames, leaf.padding) == (frames, padding)


@pytest.mark.parametrize("workflow", ["sync", "async", "replay"])
def test_the_same_is_learnt_as_from_whole_stacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workflow: str
) -> None:
    hashes = []
    for name in ("frames", "stacks"):
        if name == "stacks":
            monkeypatch.setattr(stacking, "_stack_of", lambda env: (1, ""))
        run = whorl.train(
            "dqn",
            f"{__name__}:stacked",
            workflow=workflow,
            engine="inline",
            actors=2,
            envs_per_actor=2,
            steps=300,
            run_dir=tmp_path / name,
            set=SETTINGS,
        )
        hashes.append(run.result.weights_sha256)
    assert hashes[0] == hashes[1]
