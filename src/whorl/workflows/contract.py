"""What a workflow is: a name, and a function from a job to a plan of roles and their wiring."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from whorl.engines.contract import Plan
from whorl.job import Job


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
    learners_act: bool = False
    """There are no actors: each learner acts for its own share of the environments."""
