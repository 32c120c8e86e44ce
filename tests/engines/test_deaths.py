"""Roles that are killed, hang or stop: noticed, replaced, told."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import psutil
import pytest
from engine_roles import NUMBERS, group_layout

from whorl.engines.contract import ChannelSpec, GroupSpec, Plan, RoleId, RoleSpec
from whorl.engines.local.supervisor import LocalCluster
from whorl.errors import RoleLostError

LEARNER = RoleId("learner", 0)


def actor(index: int) -> RoleId:
    return RoleId("actor", index)


def kill(cluster: LocalCluster, role: RoleId, number: signal.Signals = signal.SIGKILL) -> int:
    """Send a signal to a role's process; returns its pid."""
    pid = cluster.pids[role]
    os.kill(pid, number)
    return pid


def stream(actors: int) -> Plan:
    """Actors that produce for ever, a learner that checks what it reads."""
    return Plan(
        roles=(
            *(RoleSpec(actor(i), "engine_roles:produce", {"out": f"rows-{i}"}) for i in range(actors)),
            RoleSpec(LEARNER, "engine_roles:consume", {"inputs": tuple(f"rows-{i}" for i in range(actors))}),
        ),
        job={},
        channels=tuple(ChannelSpec(f"rows-{i}", NUMBERS, 2, actor(i), (LEARNER,)) for i in range(actors)),
    )


def test_a_killed_actor_is_replaced_within_three_seconds_and_told(launch, recorder):
    plan = Plan(
        roles=(
            RoleSpec(actor(2), "engine_roles:serve", notify=(LEARNER,)),
            RoleSpec(LEARNER, "engine_roles:serve"),
        ),
        job={},
    )
    cluster = launch(plan)
    cluster.run(until=lambda: recorder.count("up") == 2, timeout_s=20)
    cluster.run(until=lambda: False, timeout_s=0.2)  # "up" is said just before it waits
    kill(cluster, actor(2))
    killed_at = time.monotonic()
    cluster.run(until=lambda: recorder.count("lost") == 1 and recorder.count("up") == 3, timeout_s=20)
    assert time.monotonic() - killed_at < 3.0
    assert recorder.restarted_at[0] - killed_at < 1.0
    assert recorder.restarts == [(actor(2), 1, "killed by SIGKILL")]
    lost = {
        "kind": "actor",
        "index": 2,
        "incarnation": 1,
        "lost_incarnation": 0,
        "where": 0,
        "cause": "killed by SIGKILL",
        "counted": 0,
        "phase": "waiting",
    }
    assert recorder.bodies("lost") == [lost]
    assert recorder.bodies("up")[-1]["incarnation"] == 1
    assert cluster.restarts == {"actor": 1, "learner": 0}


def leaving_actor(launch, recorder) -> tuple[LocalCluster, RoleId]:
    """An actor that is to leave, and has not yet, with the host of its environment."""
    host = RoleId("env", 0)
    plan = Plan(
        roles=(
            RoleSpec(host, "engine_roles:serve", notify=(actor(0),)),
            RoleSpec(actor(0), "engine_roles:serve", notify=(LEARNER,)),
            RoleSpec(LEARNER, "engine_roles:serve"),
        ),
        job={},
    )
    cluster = launch(plan)
    cluster.run(until=lambda: recorder.count("up") == 3, timeout_s=20)
    cluster.park([host, actor(0)])
    return cluster, host


def test_the_host_of_an_actor_that_leaves_is_replaced_until_the_actor_has_ended(launch, recorder):
    cluster, host = leaving_actor(launch, recorder)
    kill(cluster, host)
    cluster.run(until=lambda: recorder.count("lost") == 1 and recorder.count("up") == 4, timeout_s=20)
    assert recorder.bodies("lost")[0]["incarnation"] == recorder.bodies("up")[-1]["incarnation"] == 1
    cluster.send(actor(0), "stop")
    cluster.run(until=lambda: actor(0) not in cluster.pids, timeout_s=20)
    kill(cluster, host)
    cluster.run(until=lambda: False, timeout_s=0.5)
    assert set(cluster.pids) == {LEARNER}
    assert cluster.restarts == {"env": 1, "actor": 0, "learner": 0}


def test_an_actor_that_is_called_back_finds_its_host_whenever_that_was_lost(launch, recorder):
    cluster, host = leaving_actor(launch, recorder)
    cluster.start([host, actor(0)])
    kill(cluster, host)
    cluster.run(until=lambda: recorder.count("up") == 4, timeout_s=20)
    cluster.send(host, "stop")  # as an actor does that ends
    cluster.send(actor(0), "stop")
    cluster.run(until=lambda: recorder.count("up") == 6, timeout_s=20)
    assert set(cluster.pids) == {host, actor(0), LEARNER}


def test_all_actors_killed_at_once_come_back_and_no_slot_is_torn(launch, recorder):
    cluster = launch(stream(actors=4))
    cluster.run(until=lambda: recorder.count("metrics") >= 2, timeout_s=20)
    for index in range(4):
        kill(cluster, actor(index))
    before = recorder.count("metrics")
    cluster.run(until=lambda: recorder.count("up") == 8 and recorder.count("metrics") > before + 2, timeout_s=20)
    assert cluster.restarts == {"actor": 4, "learner": 0}


def _kill_again_and_again(launch, recorder, kills: int) -> None:
    cluster = launch(stream(actors=2), max_restarts=10_000)
    cluster.run(until=lambda: recorder.count("metrics") > 0, timeout_s=20)

    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    held = descriptors()
    for number in range(kills):
        reads = recorder.count("metrics")
        cluster.run(until=lambda index=number % 2: actor(index) in cluster.pids, timeout_s=20)
        kill(cluster, actor(number % 2))
        cluster.run(
            until=lambda n=number, r=reads: sum(cluster.restarts.values()) > n and recorder.count("metrics") > r,
            timeout_s=20,
        )
        assert cluster.restarts["actor"] == number + 1
        recorder.messages[:-1] = []
    cluster.run(until=lambda: len(cluster.pids) == 3, timeout_s=20)
    assert descriptors() == held
    assert cluster.restarts["learner"] == 0


def test_kill_after_kill_nothing_leaks_and_nothing_hangs(launch, recorder):
    _kill_again_and_again(launch, recorder, kills=8)


@pytest.mark.verify
def test_many_kills(launch, recorder):
    _kill_again_and_again(launch, recorder, kills=40)


def test_a_learner_lost_in_the_middle_of_a_sum_restarts_the_group(launch, recorder):
    learners = (RoleId("learner", 0), RoleId("learner", 1))
    plan = Plan(
        roles=tuple(
            RoleSpec(each, "engine_roles:add_for_ever", {"group": "learners"}, on_loss="restart_all")
            for each in learners
        ),
        job={},
        groups=(GroupSpec("learners", group_layout(), learners),),
    )
    cluster = launch(plan)
    cluster.run(until=lambda: recorder.count("metrics") >= 2, timeout_s=20)
    kill(cluster, learners[1])
    killed_at = time.monotonic()
    cluster.run(until=lambda: any(body["incarnation"] == 1 for body in recorder.bodies("metrics")), timeout_s=20)
    assert time.monotonic() - killed_at < 5.0
    assert recorder.restarts == [(learners[1], 1, "killed by SIGKILL")]


def test_data_outlives_its_killed_writer_and_the_half_written_slot_is_taken_back(launch, recorder):
    plan = Plan(
        roles=(
            RoleSpec(actor(0), "engine_roles:hand_over_and_die", {"out": "rows"}, notify=(LEARNER,)),
            RoleSpec(LEARNER, "engine_roles:read_late", {"source": "rows"}),
        ),
        job={},
        channels=(ChannelSpec("rows", NUMBERS, 3, actor(0), (LEARNER,)),),
    )
    launch(plan).run(until=lambda: recorder.count("numbers") > 0, timeout_s=20)
    assert recorder.bodies("told")[0]["cause"] == "killed by SIGKILL"
    assert recorder.bodies("numbers") == [{"numbers": [0, 1, 10, 11, 12]}]


def test_a_killed_reader_gives_its_slot_back_and_the_rest_stays_readable(launch, recorder):
    plan = Plan(
        roles=(
            RoleSpec(actor(0), "engine_roles:write_three", {"out": "rows"}),
            RoleSpec(LEARNER, "engine_roles:claim_and_die", {"source": "rows"}),
        ),
        job={},
        channels=(ChannelSpec("rows", NUMBERS, 2, actor(0), (LEARNER,)),),
    )
    launch(plan).run(until=lambda: recorder.count("read") > 0, timeout_s=20)
    assert recorder.bodies("read") == [{"numbers": [1, 2]}]


@pytest.mark.parametrize(
    ("how", "cause"),
    [
        ("exit0", "exited with code 0, before its role had ended"),
        ("segfault", "killed by SIGSEGV"),
        ("exit", r"SystemExit: 3 \(engine_roles\.py:\d+ in die\)"),
        ("raise", r"RuntimeError: the simulator lost its licence \(engine_roles\.py:\d+ in die\)"),
    ],
)
def test_every_way_to_die_is_a_death(launch, recorder, how, cause):
    plan = Plan(roles=(RoleSpec(actor(0), "engine_roles:die"),), job={"how": how, "once": True})
    cluster = launch(plan)
    cluster.run(until=lambda: recorder.count("up") == 2, timeout_s=20)
    ((role, incarnation, said),) = recorder.restarts
    assert (role, incarnation) == (actor(0), 1)
    assert re.fullmatch(cause, said)


def test_the_learner_lost_restarts_everybody_with_fresh_endpoints(launch, recorder):
    plan = stream(actors=2)
    roles = tuple(
        RoleSpec(spec.id, spec.entry, spec.endpoints, on_loss="restart_all") if spec.id == LEARNER else spec
        for spec in plan.roles
    )
    cluster = launch(Plan(roles, plan.job, plan.channels))
    cluster.run(until=lambda: recorder.count("metrics") >= 2, timeout_s=20)
    pids = set(cluster.pids.values())
    kill(cluster, LEARNER)
    cluster.run(until=lambda: recorder.count("up") == 4, timeout_s=20)
    before = recorder.count("metrics")
    cluster.run(until=lambda: recorder.count("metrics") > before + 2, timeout_s=20)
    assert [body["incarnation"] for body in recorder.bodies("up")] == [0, 0, 1, 1]
    assert not pids & set(cluster.pids.values())
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert recorder.restarts == [(LEARNER, 1, "killed by SIGKILL")]


def test_the_nursery_killed_restarts_everybody(launch, recorder):
    cluster = launch(stream(actors=2))
    cluster.run(until=lambda: recorder.count("metrics") >= 2, timeout_s=20)
    os.kill(cluster.nursery_pid, signal.SIGKILL)
    cluster.run(until=lambda: recorder.count("up") == 4, timeout_s=20)
    before = recorder.count("metrics")
    cluster.run(until=lambda: recorder.count("metrics") > before + 2, timeout_s=20)
    assert cluster.restarts == {"actor": 0, "learner": 0, "nursery": 1}


def test_a_hang_past_its_deadline_is_killed_and_slow_but_alive_is_left_alone(launch, recorder):
    plan = Plan(roles=(RoleSpec(actor(0), "engine_roles:hang_in_a_step"),), job={})
    cluster = launch(plan)
    cluster.run(until=lambda: recorder.count("slow but alive") == 1, timeout_s=20)
    ((role, incarnation, cause),) = recorder.restarts
    assert (role, incarnation) == (actor(0), 1)
    assert cause.startswith("hung in the environment of lane 3 for 0.")


def test_a_stopped_actor_is_missed_and_replaced(launch, recorder):
    cluster = launch(stream(actors=2))
    cluster.run(until=lambda: recorder.count("metrics") >= 2, timeout_s=20)
    os.kill(cluster.pids[actor(0)], signal.SIGSTOP)
    pid = kill(cluster, actor(1), signal.SIGSTOP)
    stopped_at = time.monotonic()
    cluster.run(until=lambda: len(recorder.restarts) == 2, timeout_s=20)
    assert time.monotonic() - stopped_at < 6.0
    assert {role for role, _, _ in recorder.restarts} == {actor(0), actor(1)}
    assert all("did not answer" in cause and "stopped" in cause for _, _, cause in recorder.restarts)
    assert not psutil.pid_exists(pid)


def test_a_waiting_role_that_is_overdue_answers_and_lives(launch, recorder):
    plan = Plan(
        roles=(
            RoleSpec(actor(0), "engine_roles:serve", {"out": "rows"}),
            RoleSpec(LEARNER, "engine_roles:read_late", {"source": "rows"}),
        ),
        job={},
        channels=(ChannelSpec("rows", NUMBERS, 2, actor(0), (LEARNER,)),),
    )
    cluster = launch(plan, response_s=0.5)
    cluster.send(LEARNER, "lost", {})
    cluster.run(until=lambda: False, timeout_s=4.0)
    assert recorder.restarts == []
    assert set(cluster.pids) == {actor(0), LEARNER}


def test_a_role_that_always_dies_ends_the_run_soon_and_not_in_a_hot_loop(launch, recorder, tmp_path):
    plan = Plan(roles=(RoleSpec(actor(0), "engine_roles:die"),), job={"how": "raise", "log_dir": str(tmp_path)})
    started = time.monotonic()
    with pytest.raises(
        RoleLostError,
        match=r"actor-0 was lost 5 times without.*licence \(engine_roles\.py:\d+ in die\); see .*actor-0\.log",
    ):
        launch(plan, max_restarts_without_progress=4).run(until=lambda: False, timeout_s=30)
    assert 0.6 < time.monotonic() - started < 10
    assert recorder.count("up") == 5
    assert (tmp_path / "actor-0.log").read_text().count("RuntimeError: the simulator lost its licence") == 5


def test_the_restarts_of_a_run_are_bounded(launch, recorder):
    plan = Plan(roles=(RoleSpec(actor(0), "engine_roles:die"),), job={"how": "sigkill"})
    with pytest.raises(RoleLostError, match="max_restarts"):
        launch(plan, max_restarts=2).run(until=lambda: False, timeout_s=30)
    assert len(recorder.restarts) == 2


def test_a_fault_point_strikes_the_first_incarnation_only(launch, recorder, monkeypatch):
    monkeypatch.setenv("WHORL_FAULT", "actor:1:env_step=7:kill")
    plan = Plan(roles=tuple(RoleSpec(actor(i), "engine_roles:faulty") for i in range(2)), job={})
    launch(plan).run(until=lambda: False, timeout_s=20)
    assert recorder.restarts == [(actor(1), 1, "killed by SIGKILL")]
    assert sorted(body["incarnation"] for body in recorder.bodies("finished")) == [0, 1]
