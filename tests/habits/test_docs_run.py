"""What the documentation tells people to type is what the code takes."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from whorl.cli.batch import work_of
from whorl.cli.main import COMMANDS, WRAPPERS
from whorl.cli.parser import Parser
from whorl.cli.train import config_of
from whorl.resolve import ALIASES

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")])
NUMBERS = {"100_000": "1_500", "50_000": "800", "stop_return=475": "stop_return=30"}
"""Snippets run in small."""


def fences(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.S | re.M)


def commands() -> Iterator[tuple[str, str]]:
    """Every ``whorl ...`` of every bash example, with the page it is on."""
    for page in PAGES:
        for block in fences(page, "bash"):
            for line in block.replace("\\\n", " ").splitlines():
                for found in re.findall(r"(?:^|[ ;])(whorl .+?)(?:;| > |$)", re.sub(r"\s#.*", "", line)):
                    yield f"{page.relative_to(ROOT)}", found.strip()


@pytest.mark.parametrize(("page", "command"), sorted(set(commands())))
def test_a_command_is_one_that_whorl_takes(page: str, command: str) -> None:
    _, name, *arguments = shlex.split(command)
    module = import_module(COMMANDS[name].module)
    parser = Parser(f"whorl {name}", "")
    module.configure(parser)
    cut = arguments.index("--") if name in WRAPPERS and "--" in arguments else len(arguments)
    parsed = parser.parse_strictly(arguments[:cut])
    if arguments[cut:]:
        assert work_of(arguments[cut + 1 :]).is_new
    if name == "train" and not parsed.what.endswith(".toml"):
        config = config_of(parsed)  # every setting that is named exists and may have that value
        assert config.agent_name == (ALIASES[parsed.what].agent if parsed.what in ALIASES else parsed.what)


def test_the_documentation_has_commands_to_check() -> None:
    assert len(set(commands())) > 30


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md", "docs/reference/python.md"])
def test_snippets_run(tmp_path: Path, page: str) -> None:
    snippets = [code for code in fences(ROOT / page, "python") if "import whorl" in code]
    assert snippets
    for code in snippets:
        for long, short in NUMBERS.items():
            code = code.replace(long, short)
        run_python(tmp_path, "-c", code)


@pytest.mark.verify
def test_the_exported_policy_acts_as_the_tutorial_says(tmp_path: Path) -> None:
    train = ["train", "ppo", "LunarLander-v3", "--run-dir", "runs/lander", "--steps", "500", "--quiet"]
    run_python(tmp_path, "-m", "whorl", *train)
    run_python(tmp_path, "-m", "whorl", "export", "runs/lander", "--to", "onnx")
    (code,) = [code for code in fences(ROOT / "docs" / "tutorial.md", "python") if "onnxruntime" in code]
    run_python(tmp_path, "-c", code + "\nassert action.shape == (1,) and scores.shape == (1, 4)")


def run_python(where: Path, *arguments: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=where, env=environment, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
