"""Agents learn from images, computed with in bfloat16 and in float32. One seed here, three in `make verify`.

bfloat16 is set and not left to ``auto``, so that processors without instructions for it test it too (slowly).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import whorl

NETWORK = {"network.image_channels": (16, 32, 32), "network.image_features": 128, "network.hidden": ()}
GRADIENTS = {"learning_rate": 0.001, "entropy_coefficient": 0.01}
ONE_PASS = {**GRADIENTS, "optimiser": "adam", "rows": 18}
REPLAYED = {
    "learning_rate": 0.0005,
    "rows": 8,
    "gradient_steps": 16,
    "batch_size": 64,
    "learning_starts": 500,
    "target_every": 1,
    "target_tau": 0.02,
    "epsilon_fraction": 0.2,
    "discount": 0.9,
}
TASKS: dict[str, tuple[str, float, int, dict[str, Any]]] = {
    "ppo": ("whorl/Catch-v0", 0.9, 80_000, {**GRADIENTS, "rows": 32, "epochs": 4, "minibatches": 4}),
    "a2c": ("whorl/Catch-v0", 0.9, 150_000, {**ONE_PASS, "gae_lambda": 0.95}),
    "impala": ("whorl/Catch-v0", 0.9, 150_000, ONE_PASS),
    "dqn": ("whorl/Image-v0", 9.5, 10_000, REPLAYED),
}
"""Environment, mean return to reach (random play: -0.5, and 2.5), env steps it may take, settings."""

pytestmark = pytest.mark.timeout(600)


def learns(agent: str, precision: str, seed: int, folder: Path, figure: Callable[[str, object], None]) -> None:
    env, goal, steps, settings = TASKS[agent]
    settings = {f"agent.{name}": value for name, value in {**NETWORK, **settings}.items()}
    settings["run.precision"] = precision
    flags: dict[str, Any] = {"envs_per_actor": 16, "steps": steps, "stop_return": goal, "seed": seed}
    run = whorl.train(agent, env, workflow="sync", **flags, set=settings, run_dir=folder / "run")
    figure("return_mean", run.result.return_mean)
    figure("env_steps", run.result.env_steps)
    assert f'precision = "{precision}"' in (folder / "run" / "config.toml").read_text()
    assert run.result.return_mean is not None
    assert run.result.return_mean >= goal, f"not reached in {run.result.env_steps:,} env steps"


@pytest.mark.parametrize("agent", TASKS)
def test_learns_in_bfloat16(agent: str, tmp_path: Path, figure: Callable[[str, object], None]) -> None:
    learns(agent, "bfloat16", 1, tmp_path, figure)


@pytest.mark.verify
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("precision", ["bfloat16", "float32"])
@pytest.mark.parametrize("agent", TASKS)
def test_learns_in_each_precision(
    agent: str, precision: str, seed: int, tmp_path: Path, figure: Callable[[str, object], None]
) -> None:
    learns(agent, precision, seed, tmp_path, figure)
