"""The examples of CONTRIBUTING are complete: they run."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from whorl.agents.contract import LearnerSettings, Progress
from whorl.types import ActionSpec, EnvSpec, ObservationLeaf

TEXT = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()


def example(first_line: str) -> dict[str, Any]:
    (code,) = [code for code in re.findall(r"^```python\n(.*?)^```", TEXT, re.S | re.M) if code.startswith(first_line)]
    module = sys.modules["contributing_example"] = ModuleType("contributing_example")
    exec(code, module.__dict__)
    return module.__dict__


def test_the_agent_learns_what_pays() -> None:
    """Action 1 pays 1, action 0 pays nothing; the result does not depend on the number of shards."""
    names = example("# lab/agents.py")
    leaf = ObservationLeaf("obs", "vector", (1,), "float32")
    env = EnvSpec("Pay-v0", (leaf,), ActionSpec("discrete", (), "int64", (2,)), "replay", False, 10)
    agent, config = names["AGENT"], names["ReinforceConfig"](rows=1)
    policy = agent.policy(config, env)
    lanes, weights = 8, []
    for shards in (1, 2):
        learning = agent.learning(config, env, LearnerSettings(1, "cpu", 1, False, shards, lanes))
        generator = np.random.default_rng(1)
        for update in range(200):
            observation = np.ones((2, lanes, 1), np.float32)
            views = learning.spec.weights.views(learning.weights())
            noise = generator.random((lanes, 1))
            acted = policy.act(views, {"obs": observation[0]}, {}, np.zeros(lanes, bool), noise)
            batch = {
                "obs/obs": observation,
                "action": acted.actions[None],
                "reward": acted.actions[None].astype(np.float32),
                "terminated": np.ones((1, lanes), bool),
                "truncated": np.zeros((1, lanes), bool),
                "valid": np.ones((2, lanes), bool),
            }
            cuts = np.split(np.arange(lanes), shards)
            learning.begin(
                {shard: {name: array[:, cut] for name, array in batch.items()} for shard, cut in enumerate(cuts)},
                Progress(update, update * lanes, 200 * lanes),
            )
            for step in learning.plan((1, update)):
                parts = [learning.spec.contribution.views(learning.contribute(step, s)) for s in range(shards)]
                total = learning.spec.contribution.allocate()
                for name, view in learning.spec.contribution.views(total).items():
                    view[:] = sum(part[name] for part in parts)
                learning.apply(step, total)
            assert learning.finish() == {"learnt_rows": lanes}
        weights.append(learning.save()["weights/w"])
        views = learning.spec.weights.views(learning.weights())
        assert policy.act(views, {"obs": np.ones((1, 1))}, {}, np.zeros(1, bool), None).actions.tolist() == [1]
        assert names["probabilities"](views["w"], np.ones((1, 1)))[0, 1] > 0.9
    assert np.allclose(weights[0], weights[1])


def test_the_environment_steps_and_repeats() -> None:
    env = example("# lab/envs.py")["Drift"]()

    def returns() -> float:
        env.reset(seed=7)
        return sum(float(env.step(action)[1]) for action in (0, 1, 1, 0))

    assert returns() == returns()


def test_the_plan_is_wired() -> None:
    plan = example("# one counter")["plan"](3)
    plan.check()
    assert [str(role.id) for role in plan.roles] == ["counter-0", "adder-0"]


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """The examples as an installed package would be: modules, and entry points that name them."""
    package = tmp_path / "site" / "lab"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    for name in ("envs", "agents", "workflows"):
        (code,) = re.findall(rf"^```python\n(# lab/{name}\.py\n.*?)^```", TEXT, re.S | re.M)
        (package / f"{name}.py").write_text(code)
    about = tmp_path / "site" / "lab-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: lab\nVersion: 1.0\n")
    points = re.findall(r'^```toml\n\[project\.entry-points\."(whorl\.\w+)"\]\n(.*?)^```', TEXT, re.S | re.M)
    (about / "entry_points.txt").write_text("".join(f"[{group}]\n{text}" for group, text in points).replace('"', ""))
    return tmp_path


def whorl(lab: Path, *arguments: str) -> str:
    source = str(Path(__file__).parents[2] / "src")
    path = os.pathsep.join([str(lab / "site"), source])
    command = [sys.executable, "-m", "whorl", *arguments]
    done = subprocess.run(
        command, cwd=lab, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=100
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def test_a_package_plugs_its_environment_and_its_agent_in(lab: Path) -> None:
    report = whorl(lab, "check-env", "Drift-v0")
    assert report.startswith("Drift-v0: good\n")
    assert "restore        snapshot (tried)" in report
    assert "reinforce  REINFORCE with a linear policy\n" in whorl(lab, "list", "agents")
    hashes = set()
    for engine, actors in (("inline", "1"), ("local", "2")):
        where = ["--engine", engine, "--actors", actors, "--envs-per-actor", str(4 // int(actors)), "--run-dir", engine]
        whorl(lab, "train", "reinforce", "Drift-v0", "--steps", "3000", "--quiet", *where)
        result = json.loads((lab / engine / "result.json").read_text())
        assert (result["status"], result["exact"]) == ("completed", True)
        hashes.add(result["weights_sha256"])
    assert len(hashes) == 1
    assert whorl(lab, "eval", "inline", "--episodes", "2").startswith("2 episodes: ")


def test_the_workflow_runs_by_name_and_by_place(lab: Path) -> None:
    assert re.search("^mine +sync with a learner of our own$", whorl(lab, "list", "workflows"), re.MULTILINE)
    hashes = set()
    for number, workflow in enumerate(("sync", "mine", "lab.workflows:MINE")):
        where = ["--workflow", workflow, "--run-dir", str(number)]
        whorl(lab, "train", "lab.agents:AGENT", "lab.envs:Drift-v0", "--steps", "600", "--quiet", *where)
        result = json.loads((lab / str(number) / "result.json").read_text())
        assert result["exact"] == (workflow == "sync")
        hashes.add(result["weights_sha256"])
    assert len(hashes) == 1


def test_the_agent_keeps_the_contract_of_agents(lab: Path) -> None:
    """By the command that CONTRIBUTING names."""
    (command,) = re.findall(r"`pytest (tests/agents/test_agent_contract\.py -k reinforce)`", TEXT)
    (more,) = re.findall(r"`(tests/agents/test_agent_exactness\.py)`", TEXT)
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(lab / "site"), str(root / "src")])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *command.split(), more],
        cwd=root,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout


def test_the_agent_is_short_and_learns(lab: Path) -> None:
    """A random policy gets about 20 on CartPole-v1; the example trains until the mean of 100 episodes is 100."""
    assert len((lab / "site" / "lab" / "agents.py").read_text().splitlines()) < 150
    where = ["--envs-per-actor", "8", "--seed", "1", "--steps", "60000", "--stop-return", "100", "--run-dir", "run"]
    whorl(lab, "train", "reinforce", "CartPole-v1", "--quiet", *where)
    result = json.loads((lab / "run" / "result.json").read_text())
    assert (result["status"], result["exact"]) == ("completed", True)
    assert result["return_mean"] >= 100
