"""Real programs: small scripts that behave, and ones that misbehave in as many ways as programs do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from whorl.envs.registry import Env, make_env

PYTHON = [sys.executable, "-I", "-S"]
"""Without site packages: it starts in a third of the time."""

# Observes which of three it should say next, and is rewarded for saying it: 50 steps, so that the best return is 50.
PARROT = """
import json, random, sys

def say(**answer):
    print(json.dumps(answer), flush=True)

begin = json.loads(sys.stdin.readline())
random.seed(begin["seed"])
wanted = random.randrange(3)
say(observation=[float(wanted == i) for i in range(3)])
right = 0
for step, line in enumerate(sys.stdin, 1):
    reward = float(json.loads(line)["action"] == wanted)
    right += reward
    wanted = random.randrange(3)
    over = step == 50
    say(observation=[float(wanted == i) for i in range(3)], reward=reward, truncated=over, metrics={"right": right})
"""

# The beginning of every script that misbehaves after its first answer.
HELLO = """
import json, os, signal, subprocess, sys, time
print(json.dumps({"observation": [0, 0, 0]}) if sys.stdin.readline() else "", flush=True)
sys.stdin.readline()
"""

SPACES: dict[str, Any] = {"observation": {"shape": [3], "low": 0, "high": 1}, "action": 3}

Make = Callable[..., Env]


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], list[str]]:
    """Write a script; the command that runs it."""

    def write(text: str) -> list[str]:
        path = tmp_path / f"program{len(list(tmp_path.glob('*.py')))}.py"
        path.write_text(text)
        return [*PYTHON, str(path)]

    return write


@pytest.fixture
def make(program: Callable[[str], list[str]], tmp_path: Path) -> Iterator[Make]:
    """Environments around scripts, with their folders in ``tmp_path / "scratch"``; closed in the end."""
    made = []

    def build(text: str, **kwargs: Any) -> Env:
        arguments = {**SPACES, "scratch": str(tmp_path / "scratch"), "step_timeout_s": 20.0, **kwargs}
        made.append(make_env("whorl/Process-v0", {"command": program(text), **arguments}))
        return made[-1]

    yield build
    for env in made:
        env.close()
