"""Other numbers of actors, and of nodes, while a run on Ray goes on: nothing restarts and nothing is lost."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import whorl
from ray_nodes import RayNodes
from whorl.bench import elastic
from whorl.engines.contract import RoleId

SMALL = {"agent.rows": 8, "agent.network.hidden": (16,), "env.kwargs.env": "CartPole-v1"}
SLOW = {"env.kwargs.step_time_s": 0.02, "env.hosting": "process"}
JOB = {"workflow": "async", "engine": "ray", "actors": 4, "envs_per_actor": 2, "steps": 10**6}


def settings(nodes: RayNodes) -> dict[str, Any]:
    return {**SMALL, **SLOW, **{f"engine.{name}": value for name, value in nodes.settings.items()}}


def go_on(trainer: whorl.Trainer, until: Callable[[], bool], timeout_s: float = 90.0) -> None:
    """Train until something holds."""
    end = time.monotonic() + timeout_s
    while not until():
        assert time.monotonic() < end, "did not come"
        trainer.step()


def nodes_of(trainer: whorl.Trainer) -> dict[RoleId, str]:
    found: dict[RoleId, str] = trainer._session.cluster.nodes  # type: ignore[attr-defined]
    return found


@pytest.fixture
def small_cluster() -> Iterator[RayNodes]:
    """A node with room for a learner and two actors."""
    nodes = RayNodes(nodes=1, cpus=3)
    yield nodes
    nodes.end()


def test_actors_come_and_go_by_schedule(tmp_path: Path, ray_nodes: RayNodes) -> None:
    job = {**JOB, "steps": 600, "actors_schedule": "0:2,150:4,300:1,450:3"}
    run = whorl.train("impala", "whorl/Slow-v0", run_dir=tmp_path / "run", set=settings(ray_nodes), **job)
    assert run.status == "completed"
    assert run.result.transitions.balanced
    assert run.result.transitions.lost == 0
    assert set(run.result.restarts.values()) == {0}


@pytest.mark.verify
@pytest.mark.parametrize("workflow", ["sync", "overlap"])
def test_exact_workflows_come_to_the_same_weights(tmp_path: Path, ray_nodes: RayNodes, workflow: str) -> None:
    job = {**JOB, "workflow": workflow, "steps": 1500}
    quick = {**settings(ray_nodes), "env.kwargs.step_time_s": 0.0, "env.hosting": "inside"}
    still = whorl.train("ppo", "whorl/Slow-v0", run_dir=tmp_path / "still", set=quick, **{**job, "engine": "inline"})
    job["actors_schedule"] = "0:2,400:1,1000:4"
    moved = whorl.train("ppo", "whorl/Slow-v0", run_dir=tmp_path / "moved", set=quick, **job)
    assert moved.result.exact
    assert moved.result.weights_sha256 == still.result.weights_sha256
    assert moved.result.transitions.balanced


def test_nodes_join_and_leave_while_it_trains(tmp_path: Path, small_cluster: RayNodes) -> None:
    """`whorl resize` asks for more actors than there is room for; they begin when a node joins. A node that is lost
    with its actors costs what they had not handed over, and they begin again on the next one."""
    nodes, run_dir = small_cluster, tmp_path / "run"
    job = {**JOB, "actors_schedule": "0:2"}
    with whorl.Trainer("impala", "whorl/Slow-v0", run_dir=run_dir, set=settings(nodes), **job) as trainer:
        trainer.step(2)
        first_pid = trainer._session.cluster.envoy_pid  # type: ignore[attr-defined]
        resize = subprocess.Popen([sys.executable, "-m", "whorl", "resize", str(run_dir), "4"])
        go_on(trainer, lambda: resize.poll() is not None)
        assert resize.returncode == 0
        trainer.step(3)
        assert len({role for role in nodes_of(trainer) if role.kind == "actor"}) == 2, "there is no room for more"

        joined = nodes.add()
        go_on(trainer, lambda: sum(node == joined for node in nodes_of(trainer).values()) == 6)  # two with their envs
        before = trainer.env_steps
        go_on(trainer, lambda: trainer.env_steps > before + 100)
        trainer.resize(3)
        go_on(trainer, lambda: RoleId("actor", 3) not in nodes_of(trainer))

        nodes.lose(joined)
        go_on(trainer, lambda: RoleId("actor", 2) not in nodes_of(trainer))
        second = nodes.add()
        go_on(trainer, lambda: nodes_of(trainer).get(RoleId("actor", 2)) == second)
        before = trainer.env_steps
        go_on(trainer, lambda: trainer.env_steps > before + 100)
        assert trainer._session.cluster.envoy_pid == first_pid, "nothing was started anew"  # type: ignore[attr-defined]
    result = whorl.load(run_dir).result
    assert result.transitions.balanced
    assert 0 <= result.transitions.lost <= 2 * 2 * 8, "of one actor, what it was in the midst of"
    assert (result.restarts["actor"], result.restarts["learner"]) == (1, 0)


@pytest.mark.verify
@pytest.mark.parametrize("engine", ["local", "ray"])
def test_eight_then_four_then_two(
    tmp_path: Path, ray_nodes: RayNodes, engine: str, figure: Callable[[str, object], None]
) -> None:
    """As the Cray study did by checkpoint and restart. The update of the change may still hold what those that leave
    had begun: the one after it goes at the new rate."""
    counts = (8, 4, 2)
    ends = elastic.phase_ends(counts, 8.0)
    schedule = ",".join(f"{begin}:{count}" for begin, count in zip((0, *ends), counts, strict=False))
    job = {**JOB, "engine": engine, "actors": 8, "steps": ends[-1], "actors_schedule": schedule}
    slow = {**settings(ray_nodes), "env.kwargs.step_time_s": elastic.STEP_S, "agent.rows": elastic.ROWS}
    run = whorl.train("impala", "whorl/Slow-v0", run_dir=tmp_path / "run", set=slow, **job)
    assert run.status == "completed"
    assert run.result.transitions.lost == 0
    assert set(run.result.restarts.values()) == {0}
    updates = elastic.updates_until_near(tmp_path / "run" / "metrics.jsonl", counts, 8.0)
    figure(f"updates_until_the_new_rate_{engine}", updates)
    assert max(updates) <= 2
