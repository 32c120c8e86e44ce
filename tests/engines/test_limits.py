"""What the machine lacks is said before any process starts; what it has is used sparingly."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

import leakcheck
from whorl.engines.contract import ChannelSpec, Plan, RoleId, RoleSpec
from whorl.engines.inline.engine import InlineEngine
from whorl.engines.local.limits import available_memory_bytes, is_out_of_memory, out_of_memory_kills
from whorl.engines.local.memory import create_segment
from whorl.errors import BadInputError
from whorl.types import Field, Layout

ACTOR, LEARNER = RoleId("actor", 0), RoleId("learner", 0)


def one_channel(size_bytes: int) -> Plan:
    layout = Layout((Field("row", (size_bytes,), "uint8"),))
    return Plan(
        roles=(RoleSpec(ACTOR, "engine_roles:serve"), RoleSpec(LEARNER, "engine_roles:serve")),
        job={},
        channels=(ChannelSpec("rows", layout, 1, ACTOR, (LEARNER,)),),
    )


def test_more_memory_than_there_is_is_refused(launch):
    with pytest.raises(BadInputError, match=r"needs 1024\.00 TiB|needs \d+\.\d\d GiB of memory"):
        launch(one_channel(2**50))
    assert {child.pid for child in psutil.Process().children()} <= leakcheck.KEPT


def test_inline_refuses_more_memory_than_there_is():
    with pytest.raises(BadInputError, match=r"needs \d+\.\d\d GiB of memory"):
        InlineEngine().check(one_channel(2**50))


def test_too_many_slots_are_refused(launch):
    plan = one_channel(100)
    with pytest.raises(ValueError, match="1 to 128"):
        launch(Plan(plan.roles, {}, (ChannelSpec("rows", plan.channels[0].layout, 129, ACTOR, (LEARNER,)),)))


def test_a_control_group_limit_counts(tmp_path: Path):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemTotal: 9000000 kB\nMemAvailable: 8000000 kB\n")
    (tmp_path / "proc/self/cgroup").write_text("0::/job/step\n")
    (tmp_path / "cgroup/job/step").mkdir(parents=True)
    (tmp_path / "cgroup/job/step/memory.max").write_text("max\n")
    (tmp_path / "cgroup/job/step/memory.current").write_text("5\n")
    (tmp_path / "cgroup/job/memory.max").write_text("1000000\n")
    (tmp_path / "cgroup/job/memory.current").write_text("400000\n")
    assert available_memory_bytes(tmp_path / "proc", tmp_path / "cgroup") == (600000, "its control group")
    assert available_memory_bytes(tmp_path / "proc", tmp_path / "nothing") == (8000000 * 1024, "this machine")


def test_segments_cannot_change_their_size():
    descriptor = create_segment("test", 4096)
    try:
        with pytest.raises(PermissionError):
            os.ftruncate(descriptor, 8192)
        with pytest.raises(PermissionError):
            os.ftruncate(descriptor, 100)
    finally:
        os.close(descriptor)


def test_too_few_descriptors_are_refused_and_the_soft_limit_is_raised(launch):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    script = """
import resource, sys
from whorl.engines.local.limits import check_descriptors
from whorl.errors import BadInputError
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 400))
check_descriptors(200)
assert resource.getrlimit(resource.RLIMIT_NOFILE) == (400, 400)
try:
    check_descriptors(500)
except BadInputError as error:
    print(error)
"""
    source = str(Path(__file__).parents[2] / "src")
    result = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": source}, capture_output=True, text=True
    )
    assert "open descriptors and the limit is 400; use fewer actors" in result.stdout, result.stderr
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (soft, hard)


TINY_SHM = """
import os, sys
from whorl.engines.contract import ChannelSpec, Plan, RoleId, RoleSpec
from whorl.engines.local.engine import LocalEngine
from whorl.types import Field, Layout
import engine_roles

assert os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize == 16 * 2**20
writer, reader = RoleId("actor", 0), RoleId("learner", 0)
layout = Layout((*engine_roles.NUMBERS.fields, Field("ballast", (32 * 2**20,), "uint8")))

class Quiet:
    messages = []
    def on_message(self, message):
        self.messages.append(message)
    def on_restart(self, *what):
        print("restart", what)

plan = Plan(
    roles=(
        RoleSpec(writer, "engine_roles:write_three", {"out": "rows"}),
        RoleSpec(reader, "engine_roles:claim_and_die", {"source": "rows"}),
    ),
    job={},
    channels=(ChannelSpec("rows", layout, 2, writer, (reader,)),),
)
with LocalEngine().launch(plan, Quiet()) as cluster:
    cluster.run(until=lambda: bool(Quiet.messages), timeout_s=20)
print(Quiet.messages[0].body["numbers"])
"""


def test_a_tiny_dev_shm_does_not_matter(tmp_path: Path):
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("needs root and unshare(1) to mount a 16 MB /dev/shm of its own")
    script = tmp_path / "tiny.py"
    script.write_text(TINY_SHM)
    search = os.pathsep.join([str(Path(__file__).parents[2] / "src"), str(Path(__file__).parent)])
    command = f"mount -t tmpfs -o size=16m tmpfs /dev/shm && exec {sys.executable} {script}"
    result = subprocess.run(
        ["unshare", "-m", "sh", "-c", command],
        env={**os.environ, "PYTHONPATH": search},
        capture_output=True,
        text=True,
        timeout=60,
    )
    if "mount:" in result.stderr or "unshare:" in result.stderr:
        pytest.skip(f"no private mount here: {result.stderr.strip()}")
    assert result.stdout.endswith("[1, 2]\n"), result.stderr


def _idle_share(launch, recorder, roles: int, watch_s: float) -> float:
    """Cores burnt by idle roles that wait for a peer, and by their supervisor and nursery."""
    layout = Layout((Field("row", (8,), "float32"),))
    ids = [RoleId("env", index) for index in range(roles)]
    plan = Plan(
        roles=(
            *(RoleSpec(each, "engine_roles:claim_and_die", {"source": f"actions-{each.index}"}) for each in ids),
            RoleSpec(ACTOR, "engine_roles:serve", {"out": tuple(f"actions-{each.index}" for each in ids)}),
        ),
        job={},
        channels=tuple(ChannelSpec(f"actions-{each.index}", layout, 1, ACTOR, (each,)) for each in ids),
    )
    cluster = launch(plan, response_s=10.0)
    cluster.run(until=lambda: recorder.count("up") == 1, timeout_s=60)
    cluster.run(until=lambda: False, timeout_s=1.0)

    def cpu_s() -> float:
        me = psutil.Process()
        pids = [me.pid, *(child.pid for child in me.children(recursive=True))]
        return sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for pid in pids) / 1e9

    before, started = cpu_s(), time.monotonic()
    cluster.run(until=lambda: False, timeout_s=watch_s)
    return (cpu_s() - before) / (time.monotonic() - started)


def test_idle_roles_burn_nearly_nothing(launch, recorder):
    share = _idle_share(launch, recorder, roles=64, watch_s=5.0)
    assert share < 0.05, f"64 idle roles burn {share:.1%} of a core"


@pytest.mark.verify
def test_256_idle_roles_burn_under_two_percent_of_a_core(launch, recorder):
    share = _idle_share(launch, recorder, roles=256, watch_s=20.0)
    print(f"256 idle roles burn {share:.2%} of a core")
    assert share < 0.02


def test_roles_are_light_and_log_to_their_own_file(launch, recorder, tmp_path: Path):
    chatter = RoleId("chatter", 0)
    plan = Plan(
        roles=(RoleSpec(ACTOR, "engine_roles:say_memory"), RoleSpec(chatter, "engine_roles:chatter")),
        job={"log_dir": str(tmp_path / "logs")},
    )
    cluster = launch(plan)
    cluster.run(until=lambda: recorder.count("up") == 1, timeout_s=20)
    assert recorder.bodies("up") == [{"modules": False}]
    assert 0 < cluster.resources()["actor"]["memory_bytes"] < 60 * 2**20
    cluster.send(ACTOR, "stop")
    cluster.run(until=lambda: False, timeout_s=20)
    assert (tmp_path / "logs" / "chatter-0.log").read_text() == "to the log\nto the log, too\n" * 2


def test_kills_for_want_of_memory_are_read_from_the_kernel(tmp_path):
    assert out_of_memory_kills(tmp_path) == 0
    (tmp_path / "vmstat").write_text("nr_free_pages 5\noom_kill 17\n")
    assert out_of_memory_kills(tmp_path) == 17


@pytest.mark.parametrize(
    ("error", "is_shortage"),
    [
        (MemoryError("std::bad_alloc"), True),
        (OSError(12, "Cannot allocate memory"), True),
        (ImportError("libtorch_cpu.so: failed to map segment from shared object"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4 bytes"), True),
        (ImportError("No module named 'nonsense'"), False),
        (OSError(2, "No such file"), False),
    ],
)
def test_a_shortage_of_memory_is_recognised(error, is_shortage):
    assert is_out_of_memory(error) is is_shortage
