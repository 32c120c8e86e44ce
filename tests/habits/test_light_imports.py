"""What must stay light does not load torch, directly or through others: actors, engines and help start quickly."""

import pkgutil
import subprocess
import sys

import pytest

import whorl

LIGHT = ("types", "errors", "config", "envs", "engines", "trajectory", "actors", "runs", "cli")


def light_modules() -> list[str]:
    found = [module.name for module in pkgutil.walk_packages(whorl.__path__, "whorl.")]
    return [
        name
        for name in found
        if name.split(".")[1] in LIGHT or (name.startswith("whorl.agents.") and name.endswith((".acting", ".config")))
    ]


@pytest.mark.parametrize("modules", [["whorl"], light_modules()], ids=["whorl", "light parts"])
def test_torch_is_not_imported(modules: list[str]) -> None:
    code = "import sys\n" + "".join(
        f"import {name}\nif 'torch' in sys.modules: sys.exit('{name} imports torch')\n" for name in modules
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
