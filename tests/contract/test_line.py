from __future__ import annotations

import pytest

from whorl.engines.contract import Plan, RoleId, RoleSpec
from whorl.errors import WhorlError

ECHO, ASKER = RoleId("echo", 0), RoleId("asker", 0)


def test_messages_go_round_with_big_arrays_and_without_objects(run):
    plan = Plan(
        roles=(RoleSpec(ECHO, "contract_roles:answer"), RoleSpec(ASKER, "contract_roles:ask")),
        job={"size": 2_000_000},
    )
    (report,) = run(plan).bodies("report")
    assert report["equal"]
    assert report["writable"]
    assert report["rest"] == ["ü", [{"scalar": 1.5}]]
    assert report["sender"] == "echo-0"
    assert report["refused"] == "a message holds an array of dtype object; only numbers and booleans may travel"


def test_the_driver_talks_to_a_role_in_order(engine, recorder):
    plan = Plan(roles=(RoleSpec(ECHO, "contract_roles:answer"),), job={})
    with engine.launch(plan, recorder) as cluster:
        for number in range(100):
            cluster.send(ECHO, "number", {"value": number})
        cluster.run(until=lambda: len(recorder.messages) == 100, timeout_s=20)
        assert [body["value"] for body in recorder.bodies("number")] == list(range(100))
        assert {message.sender for message in recorder.messages} == {ECHO}
        cluster.send(ECHO, "stop")
        cluster.run(until=lambda: False, timeout_s=20)
        with pytest.raises(ValueError, match="ghost-0"):
            cluster.send(RoleId("ghost", 0), "stop")


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_role_hears_the_driver_after_a_time_in_which_everybody_waited(engine, recorder, place):
    """Whoever's turn it is next: nobody is taken for stalled before that role has had one."""
    waiting = [RoleSpec(RoleId("waiting", index), "contract_roles:counts_and_waits") for index in range(2)]
    plan = Plan(roles=(*waiting[:place], RoleSpec(ECHO, "contract_roles:answer"), *waiting[place:]), job={})
    with engine.launch(plan, recorder) as cluster:
        cluster.run(until=lambda: cluster.counted("waiting") == 14, timeout_s=20)
        for number in range(1, 4):
            cluster.send(ECHO, "number")
            cluster.run(until=lambda wanted=number: len(recorder.messages) == wanted, timeout_s=20)
            assert len(recorder.messages) == number


def test_an_unexpected_message_is_named(engine, recorder):
    plan = Plan(roles=(RoleSpec(ECHO, "contract_roles:expect_other"),), job={})
    with engine.launch(plan, recorder) as cluster:
        cluster.send(ECHO, "pears")
        with pytest.raises(WhorlError, match="echo-0 expected a message 'apples' and got 'pears' from supervisor-0"):
            cluster.run(until=lambda: False, timeout_s=20)
