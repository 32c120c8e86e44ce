"""What the desk tells the replacement of a lost actor: after which trajectory to begin, which episodes to give up."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

import whorl
from whorl.engines.contract import RoleId

SMALL = {
    "agent.rows": 32,
    "agent.network.hidden": (16, 16),
    "agent.epochs": 1,
    "agent.minibatches": 1,
    "resources.shards": 1,
}


def trainer(run_dir: Path, env: str = "CartPole-v1", **settings: Any) -> whorl.Trainer:
    more = settings.pop("set", {})
    flags = {"engine": "local", "workflow": "overlap", "seed": 7, **settings}
    return whorl.Trainer("ppo", env, run_dir=run_dir, **flags, set={**SMALL, **more})


def result_of(run: whorl.Trainer) -> dict[str, Any]:
    """Train to the end."""
    with run:
        run.step(10**9)
    result: dict[str, Any] = json.loads((run.path / "result.json").read_text())
    return result


def test_an_actor_lost_while_it_was_ahead_of_the_others_leaves_no_trace(tmp_path: Path) -> None:
    two = {"steps": 1800, "actors": 2, "envs_per_actor": 4}
    undisturbed = result_of(trainer(tmp_path / "undisturbed", **two))
    run = trainer(tmp_path / "disturbed", **two)
    run.step(2)
    session = run._session
    pids = session.cluster.pids  # type: ignore[attr-defined]
    ahead, behind = pids[RoleId("actor", 0)], pids[RoleId("actor", 1)]
    os.kill(behind, signal.SIGSTOP)
    session.allow(2**62)
    session.run(lambda: False, 0.7)  # meanwhile the one ahead hands over two trajectories and waits for new weights
    os.kill(ahead, signal.SIGKILL)
    session.run(lambda: False, 1.0)
    os.kill(behind, signal.SIGCONT)
    result = result_of(run)
    assert result["restarts"]["actor"] == 1
    assert result["weights_sha256"] == undisturbed["weights_sha256"]
    assert result["transitions"]["lost"] == 0  # whatever was handed over is used
    assert result["transitions"]["in_flight"] >= 0


@pytest.mark.parametrize("workflow", ["sync", "overlap"])
def test_an_actor_lost_twice_before_the_learner_hears_of_it_leaves_no_trace(tmp_path: Path, workflow: str) -> None:
    two = {"steps": 1800, "actors": 2, "envs_per_actor": 4, "workflow": workflow}
    undisturbed = result_of(trainer(tmp_path / "undisturbed", **two))
    run = trainer(tmp_path / "disturbed", **two)
    run.step(2)
    cluster = run._session.cluster
    learner, actor = RoleId("learner", 0), RoleId("actor", 1)
    os.kill(cluster.pids[learner], signal.SIGSTOP)  # type: ignore[attr-defined]
    for _ in range(2):
        pid = cluster.pids[actor]  # type: ignore[attr-defined]
        os.kill(pid, signal.SIGKILL)
        cluster.run(lambda pid=pid: cluster.pids.get(actor) not in (pid, None), 10.0)  # type: ignore[attr-defined,misc]
    os.kill(cluster.pids[learner], signal.SIGCONT)  # type: ignore[attr-defined]
    result = result_of(run)
    assert result["restarts"]["actor"] == 2
    assert result["weights_sha256"] == undisturbed["weights_sha256"]
    assert result["transitions"]["in_flight"] >= 0


@pytest.mark.parametrize("workflow", ["sync", "overlap"])
def test_an_episode_that_kills_its_actor_is_given_up_after_three_deaths(tmp_path: Path, workflow: str) -> None:
    crash = {"env.hosting": "inside", "env.kwargs.how": "kill", "env.kwargs.at": 12, "env.kwargs.share": 0.03}
    crash["engine.max_restarts_without_progress"] = 20  # two such episodes may come in one trajectory
    run = trainer(tmp_path / "run", "whorl/Crash-v0", workflow=workflow, steps=1500, envs_per_actor=4, set=crash)
    result = result_of(run)
    given_up = [text for text in run._session.journal._warnings if "is given up" in text]
    assert len(given_up) >= 1
    assert result["restarts"]["actor"] == 3 * len(given_up)
    assert not result["exact"]
    assert result["status"] == "completed"
