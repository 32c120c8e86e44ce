"""A registry of two agents, and stand-ins for the parts that commands call: only the command line is tested."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from whorl.agents.a2c.config import A2CConfig
from whorl.agents.ppo.config import PPOConfig
from whorl.cli.main import main
from whorl.envs.check import Finding, Report
from whorl.evaluate import Evaluation
from whorl.export import Export


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path) -> list[tuple[str, Any]]:
    """Installs the stand-ins; every call of one is noted here."""
    noted: list[tuple[str, Any]] = []
    agents = {
        "ppo": SimpleNamespace(config=PPOConfig, summary="Clipped policy gradient.", workflow="sync"),
        "a2c": SimpleNamespace(config=A2CConfig, summary="Plain policy gradient.", workflow="overlap"),
    }

    def note(name: str, result: Any):
        def called(*positional: Any, **named: Any) -> Any:
            noted.append((name, (positional, named)))
            return result

        return called

    report = Report(
        "Broken-v0",
        (Finding("reward is NaN", "step 3", "check the division"),),
        {
            "observation": ["pos: vector float32[2]", "mode: discrete int64[]"],
            "steps_per_s": 90_000.4,
            "step_time_s": 11.1e-6,
            "reset_time_s": 0.0123,
            "deterministic": True,
        },
    )
    export = Export(tmp_path / "policy.onnx", {"obs": "float32 [batch, 4]"}, {"action": "int64 [batch]"}, 1.25e-7)
    parts = {
        "whorl.agents.registry": {"agent_names": lambda: sorted(agents), "get_agent": agents.__getitem__},
        "whorl.workflows.registry": {
            "workflow_table": lambda: [("sync", "All wait."), ("overlap", "One behind.")],
            "get_workflow": lambda name: SimpleNamespace(settle=lambda config: config),
        },
        "whorl.engines.registry": {"engine_table": lambda: [("inline", "One thread."), ("local", "Processes.")]},
        "whorl.envs.library": {"catalogue": lambda: [("whorl/Slow-v0", "Emulates a slow simulator.")]},
        "whorl.envs.check": {"check_env": note("check_env", report)},
        "whorl.trainer": {
            "run_training": note("run_training", 0),
            "resume_training": note("resume_training", 75),
            "evaluate_run": note("evaluate_run", Evaluation([1.0, 3.0], [10, 20], video=tmp_path / "film.mp4")),
        },
        "whorl.runs.plot": {"plot_runs": note("plot_runs", tmp_path / "curve.png")},
        "whorl.export": {"export_run": note("export_run", export)},
        "whorl.bench": {"main": note("bench", 0)},
    }
    for name, members in parts.items():
        module = ModuleType(name)
        module.__dict__.update(members)
        monkeypatch.setitem(sys.modules, name, module)
    return noted


@pytest.fixture
def whorl(calls, capsys: pytest.CaptureFixture[str]):
    """Runs the command line in this process: ``code, out, err = whorl("train", ...)``."""

    def run(*arguments: str) -> tuple[int, str, str]:
        try:
            code = main(list(arguments))
        except SystemExit as leaving:
            code = int(leaving.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run
