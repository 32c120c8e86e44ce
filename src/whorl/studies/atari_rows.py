"""Rows of the published tables as trainings: what a worker, a fragment and a batch are called here."""

from __future__ import annotations

from typing import Any

from whorl.studies.contract import Training
from whorl.studies.published import STEPS, Row


def training_of(row: Row, game: str, engine: str, *, rows: int | None = None) -> Training:
    """The published configuration. ``rows`` stands in where the table gives no fragment."""
    options: dict[str, Any] = {
        "engine": engine,
        "actors": row.workers,
        "envs-per-actor": row.envs_per_worker,
        "cpus-per-actor": row.cpus_per_worker,
    }
    if row.gpus_per_worker:
        options["gpus-per-actor"] = row.gpus_per_worker
    if row.learner_gpus:
        options["device"] = "cuda"
    length = row.fragment or rows
    settings: dict[str, Any] = {} if length is None else {"agent.rows": length}
    if row.cpus_per_worker > 1:
        settings["env.kwargs.threads"] = row.cpus_per_worker
    if row.agent == "impala":  # a trajectory is a fragment of all environments of a worker
        settings["workflow.trajectories_per_update"] = row.batch // (row.fragment * row.envs_per_worker)
    if row.agent == "apex":
        settings["agent.batch_size"] = row.batch
    return Training(row.agent, f"atari/{game}-v0", STEPS, options, settings)
