"""Workflows of ours on a slow disk: roles are at it for longer than whoever waits for them bears a silence."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any
from unittest import mock

from whorl.engines.contract import Board, Channel, Group, Plan, Role, RoleGenerator
from whorl.job import Job
from whorl.learners.replay.role import run_replay
from whorl.runs.checkpoint import load
from whorl.runs.checkpoint.saver import save
from whorl.workflows import lockstep, replay

SLOW_S = 4.0
"""A role asks after another one that it has waited 2 s for."""


def run_slow_replay(
    role: Role, weights: Board, trajectories: list[Channel], batches: list[Channel], priorities: list[Channel]
) -> RoleGenerator:
    """What it goes on from takes long to load."""

    def load_slowly(*arguments: Any) -> Any:
        time.sleep(SLOW_S)
        return load(*arguments)

    with mock.patch("whorl.learners.replay.role.load", load_slowly):
        yield from run_replay(role, weights, trajectories, batches, priorities)


def run_slow_learner(
    role: Role, trajectories: list[Channel], contributions: Group, tally: Group, weights: list[Board]
) -> RoleGenerator:
    """Its first checkpoint takes long to write, and is not there when the second is due."""
    delays = iter([SLOW_S])

    def save_slowly(*arguments: Any) -> Any:
        time.sleep(next(delays, 0.0))
        return save(*arguments)

    with mock.patch("whorl.runs.checkpoint.saver.save", save_slowly):
        yield from lockstep.run_learner(role, trajectories, contributions, tally, weights)


def _with_entry(plan: Plan, kind: str, entry: str) -> Plan:
    return replace(
        plan,
        roles=tuple(
            replace(spec, entry=f"{__name__}:{entry}") if spec.id.kind == kind else spec for spec in plan.roles
        ),
    )


def _replay_plan(job: Job) -> Plan:
    return _with_entry(replay.plan(job), "replay", "run_slow_replay")


def _sync_plan(job: Job) -> Plan:
    return _with_entry(lockstep.plan(job), "learner", "run_slow_learner")


REPLAY = replace(replay.REPLAY, name="slow replay", plan=_replay_plan)
SYNC = replace(lockstep.SYNC, name="slow sync", plan=_sync_plan)
