"""Training on a Ray cluster of three nodes: the same weights as anywhere else, and every workflow."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import whorl
from whorl.workflows.registry import workflow_table

sys.path.insert(0, str(Path(__file__).parents[1] / "workflows"))
from matrix_jobs import JOBS, keywords, refusal

WORKFLOWS = [name for name, _ in workflow_table()]
SMALL = {"agent.rows": 16, "agent.network.hidden": (16,)}


def train(folder: Path, agent: str, env: str, nodes: Any, settings: dict[str, Any]) -> Any:
    engine = {f"engine.{name}": value for name, value in nodes.settings.items()} if nodes is not None else {}
    settings = {**settings, "set": {**settings.get("set", {}), **engine}}
    return whorl.train(agent, env, run_dir=folder, engine="inline" if nodes is None else "ray", **settings).result


def test_sync_gives_the_weights_of_inline(tmp_path: Path, ray_nodes: Any) -> None:
    settings = {"workflow": "sync", "actors": 2, "learners": 2, "envs_per_actor": 2, "steps": 500, "set": SMALL}
    inline = train(tmp_path / "inline", "ppo", "CartPole-v1", None, settings)
    ray = train(tmp_path / "ray", "ppo", "CartPole-v1", ray_nodes, settings)
    assert ray.weights_sha256 == inline.weights_sha256
    assert ray.transitions == inline.transitions
    assert ray.exact


def check(folder: Path, kind: str, workflow: str, nodes: Any) -> None:
    if refusal(kind, workflow) is not None:
        pytest.skip("refused, as the page of the matrix says")
    agent, env, settings = keywords(kind, workflow)
    result = train(folder, agent, env, nodes, settings)
    assert result.status == "completed"
    assert result.transitions.balanced
    assert result.transitions.in_flight >= 0
    assert result.transitions.lost == 0
    assert result.updates > 0
    assert set(result.restarts.values()) <= {0}


ONCE = {
    "sync": "lstm dqn",
    "overlap": "td3",
    "async": "impala",
    "window": "a2c",
    "queue": "sac",
    "seed": "ddpg",
    "replay": "dqn",
    "allreduce": "lstm ppo",
    "gradients": "lstm impala",
}
"""Every workflow and nearly every agent; PPO has been in the test above."""


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_each_workflow(tmp_path: Path, ray_nodes: Any, workflow: str) -> None:
    check(tmp_path, ONCE[workflow], workflow, ray_nodes)


@pytest.mark.verify
@pytest.mark.parametrize("workflow", WORKFLOWS)
@pytest.mark.parametrize("kind", JOBS)
def test_every_pair(tmp_path: Path, ray_nodes: Any, kind: str, workflow: str) -> None:
    check(tmp_path, kind, workflow, ray_nodes)


def test_more_than_there_is_is_refused_in_one_line(tmp_path: Path, ray_nodes: Any) -> None:
    settings = {"workflow": "async", "actors": 2, "steps": 100, "set": {"engine.actor_resources": {"telescope": 1}}}
    with pytest.raises(whorl.errors.BadInputError, match=r"asks for 2 telescope and the Ray cluster at .* has 0"):
        train(tmp_path, "impala", "CartPole-v1", ray_nodes, settings)
