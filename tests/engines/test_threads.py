"""Threads that are more than the processors must not spin while they wait for each other."""

from __future__ import annotations

import os

import pytest

from whorl.engines.contract import Plan, RoleId, RoleSpec
from whorl.engines.threads import is_crowded, thread_environ


def plan_of(learners: int, actors: int = 3) -> Plan:
    computing = [RoleSpec(RoleId("learner", index), "a:b", torch=True) for index in range(learners)]
    light = [RoleSpec(RoleId("actor", index), "a:b") for index in range(actors)]
    return Plan((*computing, *light), {})


@pytest.mark.parametrize(
    ("learners", "threads", "nodes", "crowded"),
    [(1, 4, 1, False), (2, 2, 1, False), (2, 3, 1, True), (4, 2, 1, True), (4, 2, 2, False), (5, 1, 1, True)],
)
def test_who_computes_is_counted(
    monkeypatch: pytest.MonkeyPatch, learners: int, threads: int, nodes: int, crowded: bool
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1, 2, 3})
    assert is_crowded(plan_of(learners), threads, nodes) is crowded


def test_only_several_threads_in_a_crowd_sleep() -> None:
    assert "OMP_WAIT_POLICY" not in thread_environ(2) | thread_environ(1, crowded=True)
    assert thread_environ(2, crowded=True)["OMP_WAIT_POLICY"] == "PASSIVE"
    assert thread_environ(2)["OMP_NUM_THREADS"] == "2"
