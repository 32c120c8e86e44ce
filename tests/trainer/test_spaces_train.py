"""Every kind of observation and action trains for some updates, on either engine, to the same weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whorl

SMALL_CNN = {"agent.network.image_features": 16}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "Dict of image, Tuple and bits": ("whorl/Dict-v0", SMALL_CNN),
    "image": ("whorl/Image-v0", SMALL_CNN),
    "image with an LSTM": ("whorl/Image-v0", {**SMALL_CNN, "agent.network.core": "lstm"}),
    "MultiDiscrete": ("whorl/IdentityMulti-v0", {}),
    "Box": ("whorl/IdentityBox-v0", {"agent.normalise_observations": True}),
    "Discrete": ("whorl/Identity-v0", {}),
    "truncated by a limit": ("Pendulum-v1", {"agent.normalise_rewards": True}),
    "one env step per episode": ("whorl/Empty-v0", {}),
    "no env step changes anything": ("whorl/Empty-v0", {"env.kwargs.length": 0}),
    "never ends": ("whorl/Endless-v0", {"env.max_episode_steps": 7}),
}
AUTORESET = ["next_step", "same_step", "disabled"]


@pytest.mark.parametrize("agent", ["ppo", "a2c"])
@pytest.mark.parametrize("kind", KINDS)
def test_it_trains_on_both_engines(tmp_path: Path, kind: str, agent: str) -> None:
    env, settings = KINDS[kind]
    settings = {"agent.rows": 8, **settings}
    inline = whorl.train(agent, env, steps=120, engine="inline", envs_per_actor=4, run_dir=tmp_path / "i", set=settings)
    assert inline.result.status == "completed"
    assert inline.result.exact
    assert np.isfinite(inline.metrics["policy_loss"]).all()
    assert inline.result.transitions.balanced
    if kind == "image with an LSTM" or agent == "a2c":
        return  # the rest of it is the same for both agents, and processes take time
    local = whorl.train(
        agent, env, steps=120, engine="local", actors=2, envs_per_actor=2, run_dir=tmp_path / "l", set=settings
    )
    assert local.result.weights_sha256 == inline.result.weights_sha256


@pytest.mark.parametrize("mode", AUTORESET)
def test_autoreset_modes_lead_to_the_same_weights(tmp_path: Path, mode: str) -> None:
    hashes = {
        whorl.train(
            "ppo", "CartPole-v1", steps=1000, run_dir=tmp_path / name, set={"env.autoreset": name}
        ).result.weights_sha256
        for name in ("auto", mode)
    }
    assert len(hashes) == 1
