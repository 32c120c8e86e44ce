"""Where roles may be launched from, and what they are given."""

from __future__ import annotations

import os
import threading

import pytest
from engine_roles import NUMBERS

from whorl.config.schema import EngineConfig, Resources
from whorl.engines.contract import ChannelSpec, Plan, RoleId, RoleSpec
from whorl.engines.registry import make_engine
from whorl.errors import BadInputError, ConfigError

ACTOR, LEARNER = RoleId("actor", 0), RoleId("learner", 0)


def test_a_torch_role_gets_the_learners_threads(recorder):
    plan = Plan(roles=(RoleSpec(LEARNER, "engine_roles:use_torch", torch=True),), job={})
    engine = make_engine(EngineConfig(name="local"), Resources(learner_threads=2))
    with engine.launch(plan, recorder) as cluster:
        cluster.run(until=lambda: False, timeout_s=60)
    assert recorder.bodies("torch") == [{"threads": 2, "value": 300.0}]


def test_variables_and_paths_that_are_not_utf8_are_passed_on_as_they_are(launch, recorder, monkeypatch):
    town, folder = b"Orl\xe9ans", b"/nowhere/caf\xe9"
    monkeypatch.setenv("TOWN", os.fsdecode(town))
    monkeypatch.syspath_prepend(os.fsdecode(folder))
    cluster = launch(Plan(roles=(RoleSpec(ACTOR, "engine_roles:say_surroundings"),), job={}))
    cluster.run(until=lambda: False, timeout_s=20)
    assert recorder.bodies("found") == [{"town": town, "first_path": folder}]


def test_a_cluster_lives_on_when_the_thread_that_launched_it_ends(launch, recorder):
    plan = Plan(roles=(RoleSpec(ACTOR, "engine_roles:serve"),), job={})
    made: list = []
    thread = threading.Thread(target=lambda: made.append(launch(plan)))
    thread.start()
    thread.join()
    (cluster,) = made
    cluster.run(until=lambda: recorder.count("up") == 1, timeout_s=20)
    cluster.send(ACTOR, "stop")
    cluster.run(until=lambda: False, timeout_s=20)
    assert recorder.restarts == []


def test_a_malformed_fault_is_refused_before_any_process_starts(launch, monkeypatch):
    monkeypatch.setenv("WHORL_FAULT", "actor:x")
    with pytest.raises(ConfigError):
        launch(Plan(roles=(RoleSpec(ACTOR, "engine_roles:serve"),), job={}))


def test_a_role_of_the_main_script_is_refused(launch):
    cluster = launch(Plan(roles=(RoleSpec(ACTOR, "__main__:serve"),), job={}))
    with pytest.raises(BadInputError, match="importable"):
        cluster.run(until=lambda: False, timeout_s=20)


@pytest.mark.parametrize("slice_s", [None, 0.0])
def test_the_inline_schedule_does_not_depend_on_how_run_is_sliced(recorder, slice_s):
    plan = Plan(
        roles=(
            RoleSpec(ACTOR, "engine_roles:tick", {"out": "rows"}),
            RoleSpec(LEARNER, "engine_roles:tock", {"source": "rows"}),
        ),
        job={},
        channels=(ChannelSpec("rows", NUMBERS, 2, ACTOR, (LEARNER,)),),
    )
    with make_engine(EngineConfig(name="inline")).launch(plan, recorder) as cluster:
        if slice_s is None:
            cluster.run(until=lambda: False)
        else:
            for wanted in range(1, 41):
                cluster.run(until=lambda n=wanted: len(recorder.messages) >= n)
    assert [message.kind for message in recorder.messages] == (["tick"] * 2 + ["tock"] * 2) * 10
