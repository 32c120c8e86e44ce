"""Other numbers of actors, and of nodes, while a run on Ray goes on: nothing restarts and nothing is lost."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whorl

sys.path.insert(0, str(Path(__file__).parent))
from counted import steps_in

from ray_nodes import RayNodes
from whorl.bench import elastic
from whorl.engines.contract import RoleId

SMALL = {"agent.rows": 8, "agent.network.hidden": (16,), "env.kwargs.env": "CartPole-v1"}
SLOW = {"env.kwargs.step_time_s": 0.02, "env.hosting": "process"}
JOB = {"workflow": "async", "engine": "ray", "actors": 4, "envs_per_actor": 2, "steps": 10**6}
SLOTS = 9
"""Of each actor: as many trajectories of one environment as an update takes, and one, where one actor may be left."""


def settings(nodes: RayNodes) -> dict[str, Any]:
    return {**SMALL, **SLOW, **{f"engine.{name}": value for name, value in nodes.settings.items()}}


def go_on(trainer: whorl.Trainer, until: Callable[[], bool], timeout_s: float = 90.0) -> None:
    """Train until something holds."""
    end = time.monotonic() + timeout_s
    while not until():
        assert time.monotonic() < end, "did not come"
        trainer.step()


def counted(folder: Path, step_time_s: float) -> dict[str, Any]:
    """Of an environment that counts its steps itself."""
    folder.mkdir()
    return {"env.kwargs.folder": str(folder), "env.kwargs.step_time_s": step_time_s, "env.hosting": "process"}


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
    assert 0 <= run.result.transitions.in_flight <= 4 * SLOTS * 8
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
    with its actors costs what they had not handed over, and they begin again on the next one. The environments have
    counted for themselves."""
    nodes, run_dir = small_cluster, tmp_path / "run"
    job = {**JOB, "actors_schedule": "0:2"}
    engine = {f"engine.{name}": value for name, value in nodes.settings.items()}
    given = {"agent.rows": 8, "agent.network.hidden": (16,), **counted(tmp_path / "steps", 0.02), **engine}
    with whorl.Trainer("impala", "counted:Tallied-v0", run_dir=run_dir, set=given, **job) as trainer:
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
        ended_at = time.time()
        assert trainer._session.cluster.envoy_pid == first_pid, "nothing was started anew"  # type: ignore[attr-defined]
    result = whorl.load(run_dir).result
    counts = result.transitions
    assert counts.balanced
    assert 0 <= counts.lost <= 2 * 2 * 8, "of one actor, what it was in the midst of"
    assert 0 <= counts.in_flight <= 4 * SLOTS * 8
    times = np.concatenate(steps_in(tmp_path / "steps"))
    assert counts.collected <= len(times), "what was counted was made"
    # Of the lost actor, whose process goes on until its slots are full or it misses its node; what it had handed over
    # just before may have come without its count; and environments are in a step.
    unheard = SLOTS * 8 + 2 * 8 + 5 * 2
    assert np.sum(times < ended_at) <= counts.collected + unheard, "and what was made was counted"
    assert (result.restarts["actor"], result.restarts["learner"]) == (1, 0)


@pytest.mark.verify
@pytest.mark.parametrize("engine", ["local", "ray"])
def test_eight_then_four_then_two(
    tmp_path: Path, ray_nodes: RayNodes, engine: str, figure: Callable[[str, object], None]
) -> None:
    """As the Cray study did by checkpoint and restart. The environments say when they stepped: those of actors that
    leave finish the trajectories they have begun, which is the update of the change; in the whole of the next one
    exactly the others step, at the new rate, and that is the rate of the updates as well."""
    counts = (8, 4, 2)
    ends = elastic.phase_ends(counts, 8.0)
    schedule = ",".join(f"{begin}:{count}" for begin, count in zip((0, *ends), counts, strict=False))
    job = {**JOB, "engine": engine, "actors": 8, "steps": ends[-1], "actors_schedule": schedule}
    given = {"agent.rows": elastic.ROWS, "agent.network.hidden": (16,), **counted(tmp_path / "steps", elastic.STEP_S)}
    if engine == "ray":
        given |= {f"engine.{name}": value for name, value in ray_nodes.settings.items()}
    updates = [(0.0, 0)]
    """When each ended, and at how many environment steps."""
    with whorl.Trainer("impala", "counted:Tallied-v0", run_dir=tmp_path / "run", set=given, **job) as trainer:
        while not trainer.done:
            trainer.step()
            updates.append((time.time(), trainer.env_steps))
    result = whorl.load(tmp_path / "run").result
    assert result.transitions.lost == 0
    assert set(result.restarts.values()) == {0}
    steps = steps_in(tmp_path / "steps")
    for change, count in zip(ends, counts[1:], strict=False):
        first = next(number for number, (_, env_steps) in enumerate(updates) if env_steps >= change)
        (changed_at, _), (begin, env_steps), (end, env_steps_then) = updates[first : first + 3]
        ideal = elastic.ideal_rate(count)
        stepping = [times for times in steps if np.any((begin < times) & (times < end))]
        last_s = [times[-1] - changed_at for times in steps if changed_at < times[-1] < begin]
        rate = sum(int(np.sum((begin < times) & (times < end))) for times in steps) / (end - begin)
        learnt = (env_steps_then - env_steps) / (end - begin)
        figure(f"share_of_the_new_rate_{engine}_{count}", [round(rate / ideal, 3), round(learnt / ideal, 3)])
        figure(f"last_step_of_those_that_left_s_{engine}_{count}", round(max(last_s, default=0.0), 2))
        assert len(stepping) == count * 2, "environments of those that stay, and no others"
        assert abs(rate / ideal - 1) <= elastic.NEAR
        assert abs(learnt / ideal - 1) <= elastic.NEAR
        assert max(last_s, default=0.0) <= elastic.ROWS * elastic.STEP_S + 0.5, "a trajectory that was begun"
