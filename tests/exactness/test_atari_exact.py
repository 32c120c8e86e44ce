"""Games with lives: the same weights whoever plays them, and after a loss in the middle of a game."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import whorl

SMALL = {
    "agent.rows": 16,
    "agent.epochs": 1,
    "agent.minibatches": 1,
    "agent.network.image_features": 16,
    "env.kwargs.size": 36,
    "env.kwargs.noop_max": 3,
    "env.kwargs.episodic_life": True,
    "resources.shards": 1,
    "env.hosting": "inside",
}
STEPS = 90
INLINE = {"engine": "inline", "envs_per_actor": 2}


def train(folder: Path, settings: dict[str, Any], **flags: Any) -> Any:
    return whorl.train(
        "ppo", "atari/Breakout-v0", steps=STEPS, run_dir=folder / "run", set={**SMALL, **settings}, **flags
    ).result


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> str:
    result = train(tmp_path_factory.mktemp("inline"), {}, **INLINE)
    assert result.exact
    return str(result.weights_sha256)


@pytest.mark.parametrize(
    ("flags", "settings", "fault"),
    [
        (INLINE, {}, ""),
        ({"engine": "local", "envs_per_actor": 2}, {"env.kwargs.threads": 2}, ""),
        ({"engine": "local", "actors": 2, "envs_per_actor": 1}, {}, "actor:1:env_step=40:kill"),
        ({"engine": "local", "envs_per_actor": 2}, {"env.hosting": "process"}, ""),
    ],
    ids=["again", "one actor", "two actors, one killed amid a game", "processes"],
)
def test_the_same_weights(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    weights: str,
    flags: dict[str, Any],
    settings: dict[str, Any],
    fault: str,
) -> None:
    monkeypatch.setenv("WHORL_FAULT", fault)
    result = train(tmp_path, settings, **flags)
    assert result.exact
    assert result.weights_sha256 == weights
    assert sum(result.restarts.values()) == bool(fault)
