"""The work of an env step: CPU seconds of environment, inference and learning, in one process.

    python -m whorl.bench.working AGENT ENV RUN_DIR WARM_UP_S MEASURED_S [SETTING=VALUE ...]

``sync`` on ``inline``: nothing is handed over between processes and nobody waits. Prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from whorl.config.parse import given_by_text
from whorl.resolve import config_from
from whorl.trainer import Trainer

UPDATES = 10
"""Between two looks at the clock."""
PARTS = {"environment": "actor", "inference": "actor", "learning": "learner"}
"""Each with the kind of role that does it."""


def main() -> None:
    """Train until it was measured, and stop."""
    agent, env, run_dir, warm_up_s, measured_s, *assignments = sys.argv[1:]
    fixed = ["workflow.name=sync", "engine.name=inline", "run.steps=1_000_000_000"]
    config = config_from(agent, env, list(given_by_text([*assignments, *fixed])))
    with Trainer.of_config(config, Path(run_dir)) as trainer:
        _step_for(trainer, float(warm_up_s))
        begin = _look(trainer)
        _step_for(trainer, float(measured_s))
        wall_s, cpu_s, env_steps, *spent = (end - start for start, end in zip(begin, _look(trainer), strict=True))
    on_a_core = min(1.0, cpu_s / wall_s)  # phases are told in time, not in CPU time
    print(json.dumps({part: on_a_core * seconds / env_steps for part, seconds in zip(PARTS, spent, strict=True)}))


def _look(trainer: Trainer) -> tuple[float, ...]:
    spent = trainer.phase_seconds
    phases = (spent[kind][part] for part, kind in PARTS.items())
    return time.monotonic(), time.process_time(), trainer.env_steps, *phases


def _step_for(trainer: Trainer, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        trainer.step(UPDATES)


if __name__ == "__main__":
    main()
