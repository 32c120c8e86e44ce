"""What docs/how-to/bring-your-simulator.md tells people to type works as it stands."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from whorl.envs.registry import make_env

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "bring-your-simulator.md"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with every file of the page."""
    for language, code in re.findall(r"^```(\w+)\n(.*?)^```", PAGE.read_text(), re.S | re.M):
        named = re.search(r"^# (\w+(?:\.\w+)?)(?::|$)", code, re.M)
        if language in ("python", "toml", "text") and named:
            (tmp_path / named[1]).write_text(code)
    (tmp_path / "old_tank").chmod(0o755)
    return tmp_path


def whorl(folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(
        [sys.executable, "-m", "whorl", *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_class_and_the_program_are_the_same_tank(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(folder)
    program = {"command": [sys.executable, str(folder / "tank_program.py")]}
    program |= {"observation": {"shape": [1], "low": 0.0, "high": 1.0}, "action": 2}
    envs = make_env("tank:Tank"), make_env("whorl/Process-v0", program)
    try:
        for env in envs:
            level = float(env.reset(seed=3)[0][0])
            for action in [1, 0] * 50:
                observation, reward, terminated, truncated, _ = env.step(action)
                level = min(1.0, max(0.0, level + 0.1 * action - 0.05))
                assert float(observation[0]) == pytest.approx(level, abs=1e-6)
                assert reward == pytest.approx(-abs(level - 0.5), abs=1e-6)
            assert (terminated, truncated) == (False, True)
    finally:
        for env in envs:
            env.close()


@pytest.mark.parametrize("file", ["tank.toml", "old_tank.toml"])
def test_each_file_trains(folder: Path, file: str) -> None:
    small = ("--steps", "200", "--envs-per-actor", "1", "--set", "agent.rows=100")
    whorl(folder, "train", file, *small, "--run-dir", "run", "--quiet")
    assert '"status": "completed"' in (folder / "run" / "result.json").read_text()
