"""What a workflow is: a name, and a function from a job to a plan of roles and their wiring."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from whorl.agents.contract import AgentSpec
from whorl.config.schema import Config
from whorl.engines.contract import Plan
from whorl.job import Job

PACING = ("trajectories_per_update", "max_staleness", "publish_every", "accept_stale")
"""Settings of every workflow that learns from trajectories."""


def _as_it_is(config: Config) -> Config:
    return config


def _any_agent(config: Config, agent: AgentSpec) -> None:
    del config, agent


def _one_for_each_taker(job: Job) -> int:
    return job.takers


@dataclass(frozen=True)
class Workflow:
    """Who acts, who learns, and who waits for whom."""

    name: str
    summary: str
    plan: Callable[[Job], Plan]
    staleness: Literal["strict", "correctable", "any"]
    """What an agent must tolerate to be run like this (``overlap`` is one version behind, which strict agents bear)."""
    exact: bool
    """The same config gives the same weights, bit for bit."""
    in_order: bool = True
    """Every update learns from one trajectory of each actor: the one that follows the last."""
    has_schedule: bool = False
    """Which trajectories an update learnt from can be recorded, and a run repeated by it."""
    even_groups: bool = True
    """Every learner must have equally many actors."""
    has_strands: bool = False
    """Slow environments of an actor may have trajectories of their own, so that none waits for another."""
    learners_act: bool = False
    """There are no actors: each learner acts for its own share of the environments."""
    fewest_acting: Callable[[Job], int] = _one_for_each_taker
    """Actors that must act at the least: fewer have no room for what an update learns from."""
    settings: tuple[str, ...] = PACING
    """Settings below ``workflow.`` that mean something in it; others are refused."""
    settle: Callable[[Config], Config] = _as_it_is
    """Fill in settings that follow from the workflow, and refuse (``ConfigError``) those it cannot run with."""
    check: Callable[[Config, AgentSpec], None] = _any_agent
    """Refuse (``ConfigError``) agents that it cannot run, beyond what ``staleness`` says."""
