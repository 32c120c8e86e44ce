"""How fast emulated runs would be if nothing but sleeping took time: what their sleeps imply."""

from __future__ import annotations


def trajectories_per_s(actors: int, learners: int, trajectory_s: float, update_s: float) -> float:
    """Nobody waits for an answer, and an update takes one trajectory of each learner: actors or learners are the
    limit."""
    return min(actors / trajectory_s, learners / update_s)


def blocking_trajectories_per_s(actors: int, trajectory_s: float, update_s: float) -> float:
    """One learner, and each actor waits until its trajectory was learnt from."""
    return actors / max(trajectory_s + update_s, actors * update_s)
