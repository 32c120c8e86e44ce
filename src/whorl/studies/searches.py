"""A search as a cell: games x learning rates as a grid, so many trials at a time."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any


def probe(envs: list[str], learning_rates: list[float], steps: int, parallel: int, seed: int) -> dict[str, Any]:
    """The seconds it took, and each trial's score."""
    import whorl

    tables = {
        "agent": {"name": "ppo", "learning_rate": {"choices": learning_rates}},
        "env": {"id": {"choices": envs}},
        "run": {"steps": steps, "seed": seed},
        "tune": {"method": "grid", "parallel": parallel},
    }
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        study = whorl.tune(tables, study_dir=Path(folder) / "study")
        seconds = time.monotonic() - begun
        trials = [
            {"env": one.env, "learning_rate": one.values["agent.learning_rate"], "score": one.score}
            for one in study.trials
        ]
    return {"seconds": seconds, "trials": trials, "done": sum(one["score"] is not None for one in trials)}
