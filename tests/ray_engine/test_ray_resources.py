"""What roles ask for and get: cores, custom resources, fractions, places; and what is refused."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

import whorl
from ray_nodes import RayNodes, require_ray
from whorl.config.schema import EngineConfig, Resources
from whorl.engines.contract import Plan, RoleId, RoleSpec
from whorl.engines.ray import pinning, private
from whorl.engines.ray.pinning import lock_folder
from whorl.engines.ray.private import make_token, route_to
from whorl.engines.ray.room import places
from whorl.engines.ray.units import check_nodes, check_room, needed, units_of
from whorl.errors import BadInputError, WhorlError

SMALL = {"agent.rows": 8, "agent.network.hidden": (16,)}
PINNING = """
import sys
from pathlib import Path
from whorl.engines.ray import pinning
pinning.FOLDER = Path(sys.argv[2])
print(*pinning.pin(int(sys.argv[1])), flush=True)
sys.stdin.read()
"""


def trainer(run_dir: Path, nodes: RayNodes | SimpleNamespace | None, **changed: Any) -> whorl.Trainer:
    settings = {**SMALL, **changed.pop("set", {})}
    if nodes is not None:
        settings |= {f"engine.{name}": value for name, value in nodes.settings.items()}
    job = {"workflow": "async", "engine": "ray", "actors": 2, "envs_per_actor": 2, "steps": 10**6, **changed}
    return whorl.Trainer("impala", "CartPole-v1", run_dir=run_dir, set=settings, **job)


def test_units_ask_for_fractions_and_custom_resources() -> None:
    actors = tuple(RoleSpec(RoleId("actor", index), "m:f") for index in range(3))
    plan = Plan(roles=(RoleSpec(RoleId("learner", 0), "m:f"), *actors), job={})
    config = EngineConfig(name="ray", actor_resources={"bigmem": 0.5}, learner_resources={"fast": 1})
    resources = Resources(cpus_per_actor=0.5, gpus_per_actor=0.25, learner_threads=2, device="cuda")
    assert needed(units_of(plan, config, resources)) == {"CPU": 3.5, "GPU": 1.75, "bigmem": 1.5, "fast": 1.0}


def test_more_gpus_than_there_are_are_refused_before_anything_is_placed(tmp_path: Path, ray_nodes: RayNodes) -> None:
    with pytest.raises(BadInputError, match=r"asks for 1 GPU and the Ray cluster at \S+ has 0: use less GPU$"):
        trainer(tmp_path / "run", ray_nodes, set={}, gpus_per_actor=0.5)
    with pytest.raises(BadInputError, match=r"asks for 1 GPU and this machine has 0: use less GPU$"):
        check_room({"CPU": 1.0, "GPU": 1.0}, {"CPU": 1.0}, "")


def test_a_unit_that_no_node_has_room_for_is_refused_at_once(tmp_path: Path, ray_nodes: RayNodes) -> None:
    """However much all of them have together."""
    begun = time.monotonic()
    with pytest.raises(BadInputError, match=r"actor-0 asks for 9 CPU and no node of the Ray .* has more than 8;"):
        trainer(tmp_path / "run", ray_nodes, actors=1, cpus_per_actor=9)
    assert time.monotonic() - begun < 60

    plan = Plan(roles=(RoleSpec(RoleId("learner", 0), "m:f"), RoleSpec(RoleId("actor", 0), "m:f")), job={})
    config = EngineConfig(name="ray", actor_resources={"bigmem": 1})
    units = units_of(plan, config, Resources(cpus_per_actor=4, learner_threads=1))
    check_nodes(units, [{"CPU": 1.0}, {"CPU": 4.0, "bigmem": 1.0}], "head:1")
    apart = [{"CPU": 8.0}, {"CPU": 2.0, "bigmem": 1.0}]
    with pytest.raises(BadInputError, match=r"actor-0 asks for 4 CPU, 1 bigmem and no node of .* has all of that;"):
        check_nodes(units, apart, "head:1")


@pytest.mark.parametrize(("each", "has", "often"), [(0.2, 1.0, 5), (0.1, 0.7, 7), (0.3, 1.0, 3), (2, 1.5, 0)])
def test_fractions_fit_as_often_as_they_do(each: float, has: float, often: int) -> None:
    assert places({"CPU": each}, {"CPU": has}) == often
    assert places({"CPU": each, "GPU": 1}, {"CPU": has}) == 0


@pytest.fixture
def node_with_a_gpu() -> Iterator[RayNodes]:
    """One that says so, at least: nobody computes on it."""
    nodes = RayNodes(nodes=1, cpus=4, gpus=1)
    yield nodes
    nodes.end()


def test_two_actors_share_a_gpu_and_three_are_too_many(tmp_path: Path, node_with_a_gpu: RayNodes) -> None:
    with trainer(tmp_path / "run", node_with_a_gpu, gpus_per_actor=0.5) as running:
        running.step()
        pids = running._session.cluster.station_pids  # type: ignore[attr-defined]
        seen = {
            child.name(): child.environ().get("CUDA_VISIBLE_DEVICES", "all")
            for pid in pids.values()
            for child in psutil.Process(pid).children(recursive=True)
            if child.name() in ("actor-0", "actor-1")
        }
    assert seen == {"actor-0": "0", "actor-1": "0"}
    with pytest.raises(BadInputError, match=r"asks for 1.5 GPU and the Ray cluster at \S+ has 1: use less GPU$"):
        trainer(tmp_path / "three", node_with_a_gpu, actors=3, gpus_per_actor=0.5)


@pytest.mark.parametrize("placement", ["pack", "spread"])
def test_roles_are_packed_or_spread(tmp_path: Path, ray_nodes: RayNodes, placement: str) -> None:
    with trainer(tmp_path / "run", ray_nodes, set={"engine.placement": placement}) as running:
        nodes = set(running._session.cluster.nodes.values())  # type: ignore[attr-defined]
    assert len(nodes) == (1 if placement == "pack" else 3)


def test_an_unreachable_head_is_named_in_one_line_within_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private, "REACH_S", 1.0)  # a head may be about to start: it is asked again until then
    begun = time.monotonic()
    with pytest.raises(BadInputError, match=r"nobody answers at 127\.0\.0\.1:9 \(Connection refused\)"):
        route_to("127.0.0.1:9")
    assert 1.0 < time.monotonic() - begun < 10
    for wrong in ("127.0.0.1", "127.0.0.1:many", ":6379", "host:0"):
        with pytest.raises(BadInputError, match="is not HOST:PORT"):
            route_to(wrong)
    with pytest.raises(BadInputError, match=r"nobody answers at no-such-host\.invalid:6379"):
        route_to("no-such-host.invalid:6379")


def test_tokens_that_others_can_read_and_wrong_ones_are_refused(tmp_path: Path, ray_nodes: RayNodes) -> None:
    token = tmp_path / "token"
    make_token(token)
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    nodes = SimpleNamespace(settings={**ray_nodes.settings, "token_file": str(token)})
    with pytest.raises(BadInputError, match=r"is engine\.token_file the token of that cluster\?$"):
        trainer(tmp_path / "wrong", nodes)
    token.chmod(0o640)
    with pytest.raises(BadInputError, match="can be read by others: chmod 600"):
        trainer(tmp_path / "read", nodes)


def test_cores_are_shared_out_and_given_back_with_the_process(tmp_path: Path) -> None:
    require_ray()
    cores = sorted(os.sched_getaffinity(0))
    folder = tmp_path / "cores"

    def pinned(count: int) -> tuple[subprocess.Popen[str], list[int]]:
        command = [sys.executable, "-c", PINNING, str(count), str(folder)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        return process, [int(word) for word in process.stdout.readline().split()]

    first, taken = pinned(1)
    rest, others = pinned(len(cores) - 1) if len(cores) > 1 else (None, [])
    assert sorted(taken + others) == cores
    late, none = pinned(1)
    assert none == []
    assert psutil.Process(late.pid).cpu_affinity() == cores
    first.communicate()
    again, taken_again = pinned(1)
    assert taken_again == taken
    for process in (rest, late, again):
        if process is not None:
            process.communicate()


def test_locks_of_cores_are_where_all_jobs_of_a_user_meet_and_nobody_else_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = "from whorl.engines.ray.pinning import lock_folder; print(lock_folder())"
    found = [
        subprocess.run(
            [sys.executable, "-c", script],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            env={**os.environ, "TMPDIR": str(tmp_path / job)},
        ).stdout.strip()
        for job in ("job-1", "job-2")
    ]
    assert found == [f"/tmp/whorl-cores-{os.getuid()}"] * 2

    monkeypatch.setattr(pinning, "FOLDER", tmp_path / "cores")
    assert stat.S_IMODE(lock_folder().stat().st_mode) == 0o700
    (tmp_path / "cores").chmod(0o755)
    with pytest.raises(WhorlError, match="is not a folder of this user alone: have it removed"):
        lock_folder()
    (tmp_path / "own").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "own")
    monkeypatch.setattr(pinning, "FOLDER", tmp_path / "link")
    with pytest.raises(WhorlError, match="is not a folder of this user alone"):
        lock_folder()
    monkeypatch.setattr(pinning, "FOLDER", tmp_path / "own")
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    with pytest.raises(WhorlError, match="is not a folder of this user alone"):
        pinning.pin(1)


def wait_until_nobody_is_pinned() -> None:
    """Other runs of this user on this machine may be: their locks are taken once, and given back."""
    for core in os.sched_getaffinity(0):
        with (lock_folder() / f"core-{core}").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_roles_are_pinned_where_asked(tmp_path: Path) -> None:
    require_ray()
    wait_until_nobody_is_pinned()
    with trainer(tmp_path / "run", None, actors=1, set={"engine.pin": True}) as running:
        running.step()
        pids = running._session.cluster.station_pids  # type: ignore[attr-defined]
        families = {role: psutil.Process(pid).children(recursive=True) for role, pid in pids.items()}
        found = {
            child.name(): child.cpu_affinity()
            for family in families.values()
            for child in family
            if child.name() in ("actor-0", "learner-0")
        }
    assert [len(cores) for cores in found.values()] == [1, 1]
    assert len({cores[0] for cores in found.values()}) == 2
