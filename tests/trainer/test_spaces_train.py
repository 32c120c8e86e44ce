"""Every kind of observation and action trains for some updates, on either engine, to the same weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whorl
from accounts import check_account

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


ON_LOCAL_TOO = ("Dict of image, Tuple and bits", "image", "MultiDiscrete", "Box", "Discrete")


@pytest.mark.parametrize("kind", KINDS)
def test_it_trains(tmp_path: Path, kind: str) -> None:
    run = short_run("ppo", kind, tmp_path / "run", engine="inline", envs_per_actor=4)
    assert (run.result.status, run.result.exact) == ("completed", True)
    check_account(run.path)
    assert np.isfinite(run.metrics["policy_loss"]).all()
    assert run.metrics["episodes"][-1] > 0 or KINDS[kind][0] == "Pendulum-v1"


@pytest.mark.parametrize("kind", ON_LOCAL_TOO)
def test_processes_lead_to_the_same_weights(tmp_path: Path, kind: str) -> None:
    inline = short_run("a2c", kind, tmp_path / "inline", engine="inline", envs_per_actor=4)
    local = short_run("a2c", kind, tmp_path / "local", engine="local", actors=2, envs_per_actor=2)
    assert local.result.weights_sha256 == inline.result.weights_sha256


def short_run(agent: str, kind: str, path: Path, **resources: Any) -> whorl.Run:
    env, settings = KINDS[kind]
    return whorl.train(agent, env, steps=120, run_dir=path, set={"agent.rows": 8, **settings}, **resources)


def test_every_autoreset_mode_leads_to_the_weights_of_scalar_copies(tmp_path: Path) -> None:
    settings = {"agent.rows": 16, "env.kwargs.length": 5}

    def final_hash(env: str, **more: Any) -> str:
        path = tmp_path / f"{env}-{len(list(tmp_path.iterdir()))}"
        run = whorl.train("ppo", env, steps=200, engine="inline", run_dir=path, set={**settings, **more})
        return run.result.weights_sha256

    scalar = final_hash("vector_envs:Scalar-v0")
    for mode in ("auto", "next_step", "same_step", "disabled"):
        assert final_hash("vector_envs:Vector-v0", **{"env.autoreset": mode}) == scalar
