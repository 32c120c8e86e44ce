"""A lab's own package, installed: its environments are known by name alone."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

CODE = """
import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete


class Drift(gymnasium.Env):
    observation_space, action_space = Box(-2, 2, (1,), np.float32), Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.np_random.uniform(-0.5, 0.5)
        return np.array([self.x], np.float32), {}

    def step(self, action):
        self.x += 0.1 * (1 if action else -1)
        return np.array([np.clip(self.x, -2, 2)], np.float32), 1 - abs(self.x), abs(self.x) > 1, False, {}


def register():
    gymnasium.register("Lab/Drift-v0", entry_point="lab_envs:Drift", max_episode_steps=200)
"""


def write_wheel(folder: Path) -> Path:
    """What ``pip wheel`` would make of such a package, without the tools to build one."""
    wheel, about = folder / "lab_envs-1.0-py3-none-any.whl", "lab_envs-1.0.dist-info"
    members = {
        "lab_envs.py": CODE,
        f"{about}/METADATA": "Metadata-Version: 2.1\nName: lab-envs\nVersion: 1.0\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/entry_points.txt": "[whorl.envs]\nlab = lab_envs:register\n",
    }
    record = "".join(f"{name},,\n" for name in (*members, f"{about}/RECORD"))
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in (*members.items(), (f"{about}/RECORD", record)):
            archive.writestr(name, text)
    return wheel


def test_an_installed_package_is_found_by_its_entry_point(tmp_path: Path) -> None:
    site = tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-compile"]
    install += ["--disable-pip-version-check", "--target", str(site), str(write_wheel(tmp_path))]
    subprocess.run(install, check=True, timeout=100)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), *sys.path])}
    train = [sys.executable, "-m", "whorl", "train", "ppo", "Lab/Drift-v0", "--steps", "256", "--run-dir", "run"]
    done = subprocess.run(train, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert '"env": "Lab/Drift-v0"' in (tmp_path / "run" / "result.json").read_text()
