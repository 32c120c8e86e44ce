"""A task that needs memory: an LSTM solves it, and without one no policy can do better than a guess.

Of four cues one is shown in the first observation; later observations are the same for all four. A policy that sees
only the current observation names the right one with probability 1/4, whatever it has learnt.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import whorl

pytestmark = pytest.mark.timeout(900)

CUES = 4
CHANCE = 1 / CUES
LUCK = 0.22
"""Five standard deviations of the mean of 100 guesses."""


def recall(core: str, seed: int, folder: Path) -> whorl.Run:
    settings = {"env.kwargs.cues": CUES, "agent.network.core": core}
    return whorl.train("ppo", "whorl/Recall-v0", seed=seed, stop_return=0.97, run_dir=folder / core, set=settings)


def memory_is_what_helps(seed: int, folder: Path, figure: Callable[[str, object], None]) -> None:
    with_memory, without = recall("lstm", seed, folder), recall("none", seed, folder)
    figure("lstm_return_mean", with_memory.result.return_mean)
    figure("lstm_env_steps", with_memory.result.env_steps)
    figure("feed_forward_return_mean", float(np.mean(without.metrics["return_mean"])))
    figure("feed_forward_env_steps", without.result.env_steps)
    assert with_memory.result.return_mean is not None
    assert with_memory.result.return_mean >= 0.97
    assert with_memory.result.env_steps < without.result.env_steps
    of_100_episodes = without.metrics["return_mean"][without.metrics["episodes"] >= 100]
    assert np.max(of_100_episodes) < CHANCE + LUCK
    assert abs(np.mean(of_100_episodes) - CHANCE) < 0.05


def test_memory_is_what_helps(tmp_path: Path, figure: Callable[[str, object], None]) -> None:
    memory_is_what_helps(1, tmp_path, figure)


@pytest.mark.verify
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_memory_is_what_helps_for_each_seed(seed: int, tmp_path: Path, figure: Callable[[str, object], None]) -> None:
    memory_is_what_helps(seed, tmp_path, figure)
