"""The end is bounded and leaves nothing, whoever dies first."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil

from leakcheck import has_ended
from whorl.engines.contract import Plan, RoleId, RoleSpec

ACTOR = RoleId("actor", 0)


def wait_until_gone(pids: list[int], timeout_s: float) -> float:
    started = time.monotonic()
    while time.monotonic() - started < timeout_s and not all(has_ended(pid) for pid in pids):
        time.sleep(0.02)
    return time.monotonic() - started


def test_a_role_that_ignores_sigterm_is_killed_in_bounded_time(launch, recorder):
    cluster = launch(Plan(roles=(RoleSpec(ACTOR, "engine_roles:disobey"),), job={}))
    cluster.run(until=lambda: recorder.count("up") == 1, timeout_s=20)
    started = time.monotonic()
    cluster.close()
    assert 1.5 < time.monotonic() - started < 4.0
    assert has_ended(recorder.bodies("up")[0]["pid"])


def test_a_stopped_role_ends_at_once(launch, recorder):
    cluster = launch(Plan(roles=(RoleSpec(ACTOR, "engine_roles:serve"),), job={}))
    cluster.run(until=lambda: recorder.count("up") == 1, timeout_s=20)
    os.kill(cluster.pids[ACTOR], signal.SIGSTOP)
    started = time.monotonic()
    cluster.close()
    assert time.monotonic() - started < 1.5


def test_sigterm_and_sigint_from_a_batch_system_do_not_take_roles_away(launch, recorder):
    cluster = launch(Plan(roles=(RoleSpec(ACTOR, "engine_roles:serve"),), job={}))
    cluster.run(until=lambda: recorder.count("up") == 1, timeout_s=20)
    for number in (signal.SIGTERM, signal.SIGINT):
        os.kill(cluster.pids[ACTOR], number)
        os.kill(cluster.nursery_pid, number)
    cluster.send(ACTOR, "still there")
    cluster.run(until=lambda: recorder.count("still there") == 1, timeout_s=20)
    assert recorder.restarts == []


def test_what_a_role_started_dies_with_it(launch, recorder):
    cluster = launch(Plan(roles=(RoleSpec(ACTOR, "engine_roles:have_children"),), job={}))
    cluster.run(until=lambda: recorder.count("up") == 1, timeout_s=20)
    first = recorder.bodies("up")[0]
    os.kill(first["pid"], signal.SIGKILL)
    cluster.run(until=lambda: recorder.count("up") == 2, timeout_s=20)
    assert wait_until_gone([first["child"]], 2.0) < 1.0
    cluster.close()
    assert wait_until_gone([recorder.bodies("up")[1]["child"]], 2.0) < 1.0


def test_a_signal_in_the_driver_ends_the_sleep(launch, recorder):
    cluster = launch(Plan(roles=(RoleSpec(ACTOR, "engine_roles:serve"),), job={}))
    cluster.run(until=lambda: recorder.count("up") == 1, timeout_s=20)
    caught: list[float] = []
    previous = signal.signal(signal.SIGALRM, lambda *_: caught.append(time.monotonic()))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.33)
        cluster.run(until=lambda: bool(caught), timeout_s=20)
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert time.monotonic() - caught[0] < 0.05


DRIVER = """
import sys, time
from whorl.config.schema import EngineConfig
from whorl.engines.contract import Plan, RoleId, RoleSpec
from whorl.engines.local.engine import LocalEngine

class Quiet:
    def on_message(self, message):
        print(message.body["pid"], flush=True)
    def on_restart(self, *_):
        pass

roles = [RoleSpec(RoleId("actor", i), "engine_roles:serve") for i in range(3)]
roles += [RoleSpec(RoleId("rogue", 0), "engine_roles:disobey")]
cluster = LocalEngine(EngineConfig(name="local")).launch(Plan(tuple(roles), {}), Quiet())
print(cluster.nursery_pid, flush=True)
cluster.run(until=lambda: False)
"""


def test_kill_the_driver_and_everybody_is_gone(tmp_path: Path):
    script = tmp_path / "driver.py"  # no __main__ guard: the nursery never imports it
    script.write_text(textwrap.dedent(DRIVER))
    search = os.pathsep.join([str(Path(__file__).parents[2] / "src"), str(Path(__file__).parent)])
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": search}, text=True
    ) as driver:
        assert driver.stdout is not None
        pids = [int(driver.stdout.readline()) for _ in range(5)]
        assert all(psutil.pid_exists(pid) for pid in pids)
        driver.kill()
        driver.wait()
        assert wait_until_gone(pids, 5.0) < 5.0
    assert all(has_ended(pid) for pid in pids)
