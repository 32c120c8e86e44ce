"""What stands in for machines that are not here: steps and updates that take their time without taking a core."""

from __future__ import annotations

from typing import Any

from whorl.bench.learners import SLEEPY, UPDATE_S

SLOW_LEARNER = SLEEPY.name
"""IMPALA whose every gradient takes 20 ms."""


def slow_steps(
    step_s: float, distribution: str = "lognormal", cv: float = 0.5, env: str = "CartPole-v1"
) -> dict[str, Any]:
    """Settings of ``whorl/Slow-v0``, stepped inside its actor."""
    return {
        "env.kwargs.env": env,
        "env.kwargs.step_time_s": step_s,
        "env.kwargs.distribution": distribution,
        "env.kwargs.cv": cv,
        "env.hosting": "inside",
    }


def says(step_s: float, updates: bool = False) -> str:
    """For labels on plots."""
    learner = f", and updates {1000 * UPDATE_S:g} ms," if updates else ""
    return f"whorl/Slow-v0, steps take {1000 * step_s:g} ms{learner} asleep"
