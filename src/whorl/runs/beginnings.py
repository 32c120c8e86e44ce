"""Whether a run without a checkpoint begins again at its start, or has lost those it had."""

from __future__ import annotations

import numpy as np

from whorl.errors import CheckpointError
from whorl.runs.checkpoint import find_checkpoints
from whorl.runs.directory import RunDirectory
from whorl.runs.metrics import read_metrics
from whorl.runs.result import Result

SURELY_SAVED_S = 60.0
"""However often checkpoints are to be written, the first may take some time."""


def begins_again(directory: RunDirectory, checkpoint_every_s: float) -> str:
    """A warning where a run had not come to its first checkpoint and begins again. One whose checkpoints are gone is
    refused: nothing is started from scratch behind the user's back."""
    if find_checkpoints(directory.checkpoints):
        return ""
    result = Result.read(directory.result) if directory.result.is_file() else None
    if result is not None and result.updates and result.status != "failed":
        raise CheckpointError(
            f"{directory.path}: its result tells of {result.updates} updates, and its checkpoints are gone; "
            "restore one from a copy, or train anew in another --run-dir"
        )
    if result is None or not result.failed_saves:
        _check_metrics(directory, checkpoint_every_s)
    had_begun = directory.metrics.is_file() and directory.metrics.stat().st_size > 0
    return "no checkpoint had been saved: the run begins again at the start" if had_begun else ""


def _check_metrics(directory: RunDirectory, checkpoint_every_s: float) -> None:
    """Refuse a run that was killed, or failed, long after the time for its first checkpoint had come."""
    metrics = read_metrics(directory.metrics)
    if "update" not in metrics:
        return
    # From the first update on: that one may take any time, and nothing is saved before it.
    wall_s = metrics["wall_s"][np.isfinite(metrics["wall_s"])] if "wall_s" in metrics else np.zeros(0)
    lasted_s = float(np.ptp(wall_s)) if len(wall_s) else 0.0
    if directory.checkpoints.is_dir() and lasted_s <= 2 * max(checkpoint_every_s, SURELY_SAVED_S):
        return
    raise CheckpointError(
        f"{directory.path}: its metrics tell of {int(metrics['update'][-1])} updates, and its checkpoints are gone; "
        f"restore one from a copy, or remove {directory.metrics.name} there to begin it anew"
    )
