"""A run with slow environments, stopped when it was measured: how many env steps it collects per second, learnt from by
then or not, and the share of their time that the environments were meant to be in steps.

    python -m whorl.bench.collecting AGENT RUN_DIR WARM_UP_S MEASURED_S [SETTING=VALUE ...]

prints one line of JSON. What has been learnt from would say too little where environments go at their own pace: they
begin their trajectories together, fall out of step with each other little by little, and so have ever more rows under
way that no learner has seen.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

from whorl.bench import told
from whorl.config.parse import given_by_text
from whorl.resolve import config_from
from whorl.trainer import Trainer


def main() -> None:
    """Train until it was measured, and stop."""
    agent, run_dir, warm_up_s, measured_s, *assignments = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        more = [f"env.kwargs.folder={folder}", "run.steps=1_000_000_000"]
        config = config_from(agent, told.ID, list(given_by_text([*assignments, *more])))
        with Trainer.of_config(config, Path(run_dir)) as trainer:
            trainer.step()
            _step_for(trainer, float(warm_up_s))
            begin = _look(trainer, Path(folder))
            _step_for(trainer, float(measured_s))
            passed, collected, in_steps_s = (e - b for b, e in zip(begin, _look(trainer, Path(folder)), strict=True))
    lanes = config.resources.actors * config.resources.envs_per_actor
    print(json.dumps({"env_steps_per_s": collected / passed, "in_steps": in_steps_s / passed / lanes}))


def _look(trainer: Trainer, folder: Path) -> tuple[float, float, float]:
    return time.monotonic(), trainer.transitions.collected, told.total_s(folder)


def _step_for(trainer: Trainer, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        trainer.step()


if __name__ == "__main__":
    main()
