"""Waits that expire, time shares, ends and failures."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from contract_roles import NUMBERS, SUMS

import leakcheck
from whorl import errors
from whorl.config.schema import EngineConfig
from whorl.engines.contract import JOINED, ChannelSpec, GroupSpec, Plan, RoleId, RoleSpec
from whorl.engines.registry import engine_table, make_engine
from whorl.errors import BadInputError, ConfigError, StalledError

WRITER, READER, ROLE = RoleId("writer", 0), RoleId("reader", 0), RoleId("actor", 0)
NUMBERS_CHANNEL = ChannelSpec("numbers", NUMBERS, 2, WRITER, (READER,))


def test_a_wait_expires_and_names_who_was_waited_for(run):
    plan = Plan(
        roles=(
            RoleSpec(WRITER, "contract_roles:end_at_once"),
            RoleSpec(READER, "contract_roles:expires", {"source": "numbers"}),
        ),
        job={},
        channels=(NUMBERS_CHANNEL,),
    )
    assert run(plan).bodies("expired") == [{"text": "reader-0 waited 0.3 s for writer-0's numbers and gave up"}]


@pytest.mark.parametrize(
    ("entry", "wires", "says"),
    [
        (
            "expires",
            {"sauce": "numbers"},
            r"reader-0 calls contract_roles:expires with \(role, sauce\): missing .*'source'",
        ),
        ("returns", {}, "contract_roles:returns of reader-0 is not a generator function"),
    ],
)
def test_a_function_that_does_not_fit_is_refused_and_not_tried_again(run, recorder, entry, wires, says):
    roles = (RoleSpec(WRITER, "contract_roles:idle"), RoleSpec(READER, f"contract_roles:{entry}", wires))
    with pytest.raises(BadInputError, match=says):
        run(Plan(roles=roles, job={}, channels=(NUMBERS_CHANNEL,)))
    assert not recorder.restarts


def test_both_ends_of_a_wire_name_each_other(run):
    stranger = RoleSpec(ROLE, "contract_roles:expires", {"source": "numbers"})
    roles = (RoleSpec(WRITER, "contract_roles:idle"), RoleSpec(READER, "contract_roles:idle"), stranger)
    with pytest.raises(ValueError, match="actor-0 is wired to numbers but is neither its writer, reader nor member"):
        run(Plan(roles=roles, job={}, channels=(NUMBERS_CHANNEL,)))


def test_when_patience_ends_the_run_ends_and_says_who_waited_for_whom(engine, recorder):
    if engine.name != "inline":
        engine = type(engine)(replace(engine._config, patience_s=0.5))
    plan = Plan(
        roles=(
            RoleSpec(WRITER, "contract_roles:idle"),
            RoleSpec(READER, "contract_roles:waits_for_ever", {"source": "numbers"}),
        ),
        job={},
        channels=(NUMBERS_CHANNEL,),
    )
    with engine.launch(plan, recorder) as cluster, pytest.raises(StalledError, match=r"writer-0.*'stop'|reader-0.*"):
        cluster.run(until=lambda: False, timeout_s=20)


def test_a_group_names_its_missing_members(recorder):
    members = (RoleId("learner", 0), RoleId("learner", 1))
    plan = Plan(
        roles=tuple(RoleSpec(member, "contract_roles:wait_alone", {"group": "learners"}) for member in members),
        job={},
        groups=(GroupSpec("learners", SUMS, members),),
    )
    with make_engine(EngineConfig(name="inline")).launch(plan, recorder) as cluster:
        expected = "no role can go on: learner-0 waits for learner-1 in learners; learner-1 waits for a message 'never'"
        with pytest.raises(StalledError, match=expected):
            cluster.run(until=lambda: False)


def test_time_shares_add_up(engine, recorder):
    plan = Plan(roles=(RoleSpec(ROLE, "contract_roles:take_time"),), job={})
    with engine.launch(plan, recorder) as cluster:
        cluster.run(until=lambda: False, timeout_s=20)
        (shares,), (spent,) = recorder.bodies("shares"), recorder.bodies("spent")
        for phase, asked_s in {"environment": 0.15, "learning": 0.1, "waiting": 0.2}.items():
            assert spent[phase] >= asked_s
            assert shares[phase] == pytest.approx(spent[phase], abs=0.05), phase
        assert shares["inference"] == 0.0
        totals = cluster.time_shares()["actor"]
        assert totals["environment"] == pytest.approx(shares["environment"], abs=0.01)
        usage = cluster.resources()["actor"]
        assert set(usage) == {"cpu_share", "memory_bytes", "bytes_sent"}
        assert cluster.restarts == {"actor": 0}


@pytest.mark.parametrize("name", ["EnvironmentFault", "BadInputError", "StalledError"])
def test_errors_raised_on_purpose_reach_the_driver_as_they_are(engine, recorder, name):
    plan = Plan(roles=(RoleSpec(ROLE, "contract_roles:fail_as"),), job={"error": name})
    kind = getattr(errors, name)
    with engine.launch(plan, recorder) as cluster:
        cluster.send(ROLE, "go")
        with pytest.raises(kind, match=r"lane 3 returned NaN|no such thing|waited for nobody") as caught:
            cluster.run(until=lambda: False, timeout_s=20)
    assert type(caught.value) is kind
    assert recorder.bodies("last words") == [{}]
    assert not recorder.restarts


def test_run_ends_with_its_condition_its_time_or_its_roles(engine, recorder):
    plan = Plan(roles=(RoleSpec(ROLE, "contract_roles:answer"),), job={})
    with engine.launch(plan, recorder) as cluster:
        cluster.send(ROLE, "hello")
        cluster.run(until=lambda: bool(recorder.messages), timeout_s=20)
        assert len(recorder.messages) == 1
        cluster.run(until=lambda: True)
        cluster.run(until=lambda: False, timeout_s=0.0)
        cluster.send(ROLE, "stop")
        cluster.run(until=lambda: False)


def test_run_ends_with_the_roles_that_carry_it(engine, recorder):
    other = RoleId("learner", 0)
    carrier = RoleSpec(other, "contract_roles:end_at_once", on_loss="restart_all")
    plan = Plan(roles=(RoleSpec(ROLE, "contract_roles:answer"), carrier), job={})
    with engine.launch(plan, recorder) as cluster:
        cluster.run(until=lambda: False)  # though the other one is still there


def test_a_condition_that_holds_when_all_wait_is_seen(engine, recorder):
    """However quickly it came: nobody is taken for stalled."""
    plan = Plan(roles=(RoleSpec(ROLE, "contract_roles:counts_and_waits"),), job={})
    with engine.launch(plan, recorder) as cluster:
        cluster.run(until=lambda: cluster.counted("actor") == 7, timeout_s=10)
        assert cluster.counted("actor") == 7


def test_roles_run_their_finally_blocks_when_the_cluster_is_closed(engine, recorder, tmp_path: Path):
    witness = tmp_path / "witness"
    plan = Plan(roles=(RoleSpec(ROLE, "contract_roles:close_politely"),), job={"witness": str(witness)})
    with engine.launch(plan, recorder) as cluster:
        cluster.run(until=lambda: bool(recorder.messages), timeout_s=20)
        started = time.monotonic()
    assert time.monotonic() - started < 1.5
    assert witness.read_text() == "closed\n"
    cluster.close()


def test_an_exception_in_the_driver_closes_everything(engine, recorder):
    plan = Plan(roles=(RoleSpec(ROLE, "contract_roles:idle"),), job={})
    with pytest.raises(ZeroDivisionError), engine.launch(plan, recorder):
        _ = 1 / 0


def test_an_entry_that_does_not_exist_is_bad_input(engine, recorder):
    plan = Plan(roles=(RoleSpec(ROLE, "contract_roles:nothing_here"),), job={})
    with pytest.raises(BadInputError, match="nothing_here"), engine.launch(plan, recorder) as cluster:
        cluster.run(until=lambda: False, timeout_s=20)


def test_engines_are_listed_and_misspelt_ones_are_refused():
    assert [name for name, _ in engine_table()] == ["inline", "local", "mpi", "ray"]
    with pytest.raises(ConfigError, match="did you mean 'local'"):
        make_engine(EngineConfig(name="lokal"))


def test_nothing_is_left_behind(engine, recorder):
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    plan = Plan(
        roles=(
            RoleSpec(WRITER, "contract_roles:count", {"out": "numbers"}),
            RoleSpec(READER, "contract_roles:collect", {"inputs": ("numbers",)}),
        ),
        job={"items": 5},
        channels=(NUMBERS_CHANNEL,),
    )
    before = descriptors()
    for _ in range(2):
        with engine.launch(plan, recorder) as cluster:
            cluster.run(until=lambda: False, timeout_s=20)
    assert descriptors() == before
    assert {child.pid for child in psutil.Process().children()} <= leakcheck.KEPT


def test_a_parked_role_is_started_when_asked_for_and_those_are_told_who_want_to_know(engine, recorder):
    learner = RoleId("learner", 0)
    plan = Plan(
        roles=(
            RoleSpec(ROLE, "contract_roles:until_told", notify=(learner,), parked=True),
            RoleSpec(learner, "contract_roles:watch"),
        ),
        job={},
    )
    with engine.launch(plan, recorder) as cluster:

        def run_until(ups: int) -> None:
            cluster.run(until=lambda: len(recorder.bodies("up")) == ups == len(recorder.bodies("heard")), timeout_s=20)

        cluster.run(until=lambda: False, timeout_s=0.3)
        assert recorder.bodies("up") == []
        cluster.start([ROLE])
        run_until(1)
        cluster.park([ROLE])
        cluster.send(ROLE, "leave")
        cluster.start([ROLE])  # before it can have ended
        run_until(2)
        cluster.park([ROLE])
        cluster.send(ROLE, "leave")
        cluster.run(until=lambda: False, timeout_s=0.5)
        assert len(recorder.bodies("up")) == 2, "it stays away until it is asked for"
        cluster.start([ROLE])
        run_until(3)
        assert cluster.counted("actor") == 3
        assert cluster.restarts["actor"] == 0
    heard = [(body["incarnation"], body["cause"], body["counted"]) for body in recorder.bodies("heard")]
    assert heard == [(1, JOINED, 0), (2, JOINED, 1), (3, JOINED, 1)]
    assert recorder.restarts == []
