"""What may be lost on a Ray cluster: a role, its station, a node, the head."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

import whorl
from whorl.config.schema import EngineConfig
from whorl.engines.contract import Plan, RoleId, RoleSpec
from whorl.engines.ray.engine import RayEngine
from whorl.engines.ray.private import SHORT_BYTES
from whorl.trainer import resume_training

sys.path.insert(0, str(Path(__file__).parents[1] / "engines"))
sys.path.insert(0, str(Path(__file__).parents[1] / "contract"))
from ray_nodes import RayNodes, require_ray

ACTOR, LEARNER = RoleId("actor", 0), RoleId("learner", 0)
SMALL = {"agent.rows": 16, "agent.network.hidden": (16,)}
JOB = {"workflow": "sync", "actors": 2, "envs_per_actor": 2, "steps": 4000, "set": SMALL}


def trainer(folder: Path, nodes: Any, **changed: Any) -> whorl.Trainer:
    engine = {f"engine.{name}": value for name, value in nodes.settings.items()}
    settings = {**JOB, **changed, "set": {**SMALL, **engine}}
    return whorl.Trainer("ppo", "CartPole-v1", run_dir=folder, engine="ray", **settings)


def knows_ray(process: psutil.Process) -> bool:
    """It has loaded Ray."""
    return any("/ray/_raylet" in mapped.path for mapped in process.memory_maps())


def test_a_lost_role_and_a_lost_station_are_replaced_and_the_weights_are_those_of_inline(
    tmp_path: Path, ray_nodes: Any
) -> None:
    expected = whorl.train("ppo", "CartPole-v1", run_dir=tmp_path / "inline", engine="inline", **JOB).result
    with trainer(tmp_path / "ray", ray_nodes) as running:
        running.step(3)
        cluster: Any = running._session.cluster
        station = psutil.Process(cluster.station_pids[ACTOR])
        roles = [child for child in station.children(recursive=True) if child.name() == "actor-0"]
        assert len(roles) == 1
        assert (knows_ray(station), knows_ray(roles[0])) == (True, False), "no call of Ray for each environment step"
        roles[0].kill()
        running.step(6)
        os.kill(cluster.station_pids[RoleId("actor", 1)], signal.SIGKILL)
        while not running.done:
            running.step(10)
    result = json.loads((tmp_path / "ray" / "result.json").read_text())
    assert result["weights_sha256"] == expected.weights_sha256
    assert result["restarts"]["actor"] == 2
    counts = result["transitions"]
    assert counts["collected"] == sum(counts[name] for name in ("used", "dropped", "lost", "in_flight"))
    assert 0 <= counts["in_flight"] <= 2 * 2 * 16 * 2  # two slots of two actors
    assert result["exact"]


def test_a_lost_node_s_roles_are_replaced_elsewhere() -> None:
    nodes = RayNodes(nodes=3, cpus=4)
    try:
        plan = Plan(
            roles=(
                *(RoleSpec(RoleId("actor", i), "contract_roles:until_told", notify=(LEARNER,)) for i in range(3)),
                RoleSpec(LEARNER, "contract_roles:watch", on_loss="restart_all"),
            ),
            job={},
        )
        config = EngineConfig(name="ray", **nodes.settings)

        class Recorder:
            def __init__(self) -> None:
                self.kinds: list[str] = []
                self.restarts: list[RoleId] = []

            def on_message(self, message: Any) -> None:
                self.kinds.append(message.kind)

            def on_restart(self, role: RoleId, incarnation: int, cause: str) -> None:
                self.restarts.append(role)

            def on_placed(self, table: Sequence[str]) -> None:
                self.placed = list(table)

        recorder = Recorder()
        with RayEngine(config).launch(plan, recorder) as cluster:
            cluster.run(until=lambda: recorder.kinds.count("up") == 3, timeout_s=30)
            placed = sorted(line.split()[-1] for line in recorder.placed[1:])
            assert placed == ["actor-0", "actor-1", "actor-2", "learner-0"]
            where: dict[RoleId, str] = cluster.nodes  # type: ignore[attr-defined]
            safe = {where[LEARNER], next(iter(nodes.raylets))}
            unlucky = [role for role, node in where.items() if node not in safe]
            assert unlucky, "spread puts something on each node"
            os.kill(nodes.raylets[where[unlucky[0]]], signal.SIGKILL)
            killed_at = time.monotonic()
            lost = [role for role, node in where.items() if node == where[unlucky[0]]]
            cluster.run(until=lambda: recorder.kinds.count("up") == 3 + len(lost), timeout_s=60)
            assert sorted(recorder.restarts) == sorted(lost)
            assert time.monotonic() - killed_at < 30
            now: dict[RoleId, str] = cluster.nodes  # type: ignore[attr-defined]
            assert all(now[role] != where[role] for role in lost)
            assert recorder.kinds.count("heard") == len(lost)
    finally:
        nodes.end()


def test_a_lost_head_ends_the_run_cleanly_and_it_can_be_resumed(tmp_path: Path) -> None:
    # Many steps: roles go on for as long as nobody has missed the head, which takes seconds.
    job = {**JOB, "steps": 60_000}
    expected = whorl.train("ppo", "CartPole-v1", run_dir=tmp_path / "inline", engine="inline", **job).result
    nodes = RayNodes(nodes=1, cpus=4)
    try:
        with trainer(tmp_path / "ray", nodes, steps=job["steps"]) as running:
            running.step(5)
            running.save()
            for pid in (nodes.gcs, *nodes.raylets.values()):
                os.kill(pid, signal.SIGKILL)
            with pytest.raises(whorl.errors.WhorlError, match="Ray cluster was lost"):
                running.step(100_000)
    finally:
        nodes.end()
    assert resume_training(tmp_path / "ray", console=False, engine="inline") == 0
    resumed = json.loads((tmp_path / "ray" / "result.json").read_text())
    assert resumed["weights_sha256"] == expected.weights_sha256


START = """
from whorl.engines.ray.private import PrivateCluster
cluster = PrivateCluster()
cluster.start({"CPU": 1.0}, "whorl-test")
print(cluster.folder, *(cluster.folder / "r").glob("session_2*/sockets/plasma_store"))
cluster.end()
"""


@pytest.mark.parametrize("beyond", [0, 1])
def test_a_private_cluster_comes_up_however_long_the_path_of_temporary_files_is(beyond: int) -> None:
    """With the longest that its sockets bear, and with one that is longer: they are then in /tmp."""
    require_ray()
    with tempfile.TemporaryDirectory(prefix="w", dir="/tmp") as above:
        wanted = Path(above) / ("t" * (SHORT_BYTES - len(above) - 1 + beyond))
        wanted.mkdir()
        environ = {**os.environ, "TMPDIR": str(wanted)}
        done = subprocess.run([sys.executable, "-c", START], stdout=subprocess.PIPE, text=True, env=environ, timeout=90)
    assert done.returncode == 0
    folder, in_use = map(Path, done.stdout.split())
    assert folder.parent == (Path("/tmp") if beyond else wanted)
    longest = len(str(in_use)) + len("4194304") - len(in_use.parts[-3].rpartition("_")[2])
    assert longest <= 107, "the pid in it may have seven digits"


def test_a_private_cluster_listens_on_loopback_alone_and_dies_with_its_driver(tmp_path: Path) -> None:
    """Ray listens elsewhere when it is not kept from it. Children of the envoy, of Ray and of stations: all are gone
    within seconds."""
    require_ray()
    script = (
        "import whorl, time\n"
        f"t = whorl.Trainer('impala', 'CartPole-v1', engine='ray', run_dir={str(tmp_path / 'run')!r})\n"
        "t.step(2); print('up', flush=True); time.sleep(100)\n"
    )
    driver = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert driver.stdout is not None
    assert driver.stdout.readline() == b"up\n"
    family = psutil.Process(driver.pid).children(recursive=True)
    assert any(child.name() == "raylet" for child in family)
    sockets = [link for child in family for link in child.net_connections("tcp") if link.status == "LISTEN"]
    assert len(sockets) >= 4  # the head, its node, workers
    assert {socket.laddr.ip.removeprefix("::ffff:") for socket in sockets} == {"127.0.0.1"}
    of_ray = [child.environ() for child in family if child.name() == "raylet" or "gcs_server" in child.name()]
    assert len(of_ray) == 2
    for environ in of_ray:
        assert (environ["RAY_AUTH_MODE"], environ["RAY_USAGE_STATS_ENABLED"]) == ("token", "0")
        assert stat.S_IMODE(Path(environ["RAY_AUTH_TOKEN_PATH"]).stat().st_mode) == 0o600
        assert "RAY_AUTH_TOKEN" not in environ, "the token can be read in the environment of processes"
    folder = Path(of_ray[0]["RAY_AUTH_TOKEN_PATH"]).parent
    paths = {link.laddr for child in family for link in child.net_connections("unix") if "raylet" in str(link.laddr)}
    assert paths
    assert all(path.startswith(str(folder)) and len(path) <= 107 for path in paths)
    driver.kill()
    driver.wait()
    driver.stdout.close()
    _, alive = psutil.wait_procs(family, timeout=8)
    assert not alive
