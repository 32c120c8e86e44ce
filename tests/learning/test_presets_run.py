"""Every preset takes 20,000 env steps, in `make verify` only. Those of all Atari games are in test_atari_presets.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import whorl
from whorl.config.presets import Preset, list_presets

PRESETS = [preset for preset in list_presets() if not preset.env.endswith("/*")]


@pytest.mark.verify
@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_the_preset_completes_20_000_env_steps(
    preset: Preset, tmp_path: Path, figure: Callable[[str, object], None]
) -> None:
    if "Tetris" in preset.env:
        pytest.importorskip("nes_py", reason="needs pip install 'whorl[tetris]'")
    run = whorl.train(preset.agent, preset.env, steps=20_000, run_dir=tmp_path / "run")
    result = run.result
    figure("seconds", round(result.wall_s, 1))
    figure("return_mean", result.return_mean)
    assert result.status == "completed"
    assert result.env_steps >= 20_000
    assert result.updates > 0
    assert result.transitions.balanced
