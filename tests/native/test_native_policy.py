"""A policy that Whorl has trained acts in libtorch as it acts in Python."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

import whorl
from remote.conftest import Serve
from whorl.envs.registry import make_env
from whorl.export import export_run

from .conftest import build

EPISODES = 3


@pytest.fixture(scope="module")
def player(shared_folder: Path) -> Path:
    options = ("-DWHORL_TORCH=ON", f"-DCMAKE_PREFIX_PATH={torch.utils.cmake_prefix_path}")
    return build(shared_folder / "torch", *options, targets=("play_policy",)) / "play_policy"


@pytest.mark.verify
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_actions_in_libtorch_are_those_in_python(player: Path, serve: Serve, tmp_path: Path, env: str) -> None:
    run = whorl.train("ppo", env, steps=2000, seed=3, engine="inline", run_dir=tmp_path / "run")
    exported = export_run(tmp_path / "run", "torchscript")
    address = serve(env).address
    command = [player, address, exported.path, str(EPISODES)]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert len(lines) == EPISODES
    here = make_env(address)
    for seed, line in enumerate(lines):
        *_, actions, total = line.replace(" return ", " actions ").split(" actions ")
        observation, _ = here.reset(seed=seed)
        returned = 0.0
        for word in actions.split():
            expected = np.asarray(run.policy.act(observation))
            assert float(word) == pytest.approx(float(expected.reshape(())), abs=1e-4)
            action = np.array([word], np.float32) if env == "Pendulum-v1" else int(word)
            observation, reward, terminated, truncated, _ = here.step(action)
            returned += float(reward)
        assert terminated or truncated or len(actions.split()) == 200
        assert returned == float(total)
    here.close()
